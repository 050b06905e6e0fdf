// How kernels begin, and how they end.
#pragma once
#include "timeout_attribution.cuh"

// Counts this block as finished; true in the last one, for all of its threads. What other blocks
// wrote before is visible to all threads of the last.
__device__ __forceinline__ bool last_block(Control* control) {
  __shared__ bool last;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&control->arrived, 1ull) == gridDim.x - 1;
    __threadfence_system();
  }
  __syncthreads();
  return last;
}

// What the host asked to be told about the end of an operation: once the kernel has ended well or
// badly, `completed` (mapped host memory) holds at least the ticket. A ticket of 0 tells nothing.
struct Receipt {
  u64 ticket;
  u64* completed;
};

// Ends the operation; called by one thread of the last block. `entries()` tells where to look if it failed.
template <class EntrySource>
__device__ __forceinline__ void end_epoch(const WaitContext& w, Receipt receipt, EntrySource entries) {
  // Relaxed, and both at once: last_block() has seen to the order, and waiting twice is longer.
  u64 abort = load_relaxed_system(&w.control->abort);
  u64 ticket = w.control->ticket;
  w.control->arrived = 0;
  w.control->senders = 0;
  w.control->jobs = 0;
  store_relaxed_system(&w.control->running, 0);
  if (abort == w.epoch) {
    attribute_timeout(w, entries);
  }
  // A graph replays an old ticket: the word must not go back.
  if (receipt.ticket > ticket) {
    w.control->ticket = receipt.ticket;
    store_release_system(receipt.completed, receipt.ticket);
  }
  store_release_gpu(&w.control->epoch, w.epoch);
}

// Says that the kernel runs. Not 0 if it has nothing to do but to end: an earlier operation has failed,
// or the rank is evicted. All threads; a block works only if none of them has found anything.
__device__ __forceinline__ u64 exit_reason(Control* control) {
  if (threadIdx.x == 0) {
    store_relaxed_system(&control->running, 1);
  }
  return load_relaxed_system(&control->failed) | load_relaxed_system(&control->fenced_by);
}

// Tells the host of a block that leaves because the rank is evicted; those of the kernel that looked
// earlier give up, too. All threads.
__device__ __forceinline__ void report_fenced(const WaitContext& w) {
  if (threadIdx.x == 0 && is_fenced(w)) {
    fail_wait(w, PHASE_ENTER, 0, w.epoch, 0);
  }
}

// True if the kernel has nothing to do but to end. All threads.
template <class EntrySource>
__device__ __forceinline__ bool exit_early(const WaitContext& w, Receipt receipt, EntrySource entries) {
  if (!__syncthreads_or(exit_reason(w.control) != 0)) {
    return false;
  }
  report_fenced(w);
  if (last_block(w.control) && threadIdx.x == 0) {
    end_epoch(w, receipt, entries);
  }
  return true;
}
