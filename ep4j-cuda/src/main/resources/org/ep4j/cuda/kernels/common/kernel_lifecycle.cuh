// Kernel start, kernel end, and the check for a fenced rank.
#pragma once
#include "common/timeout_attribution.cuh"
#include "structs/receipt.cuh"

// Counts this block as finished; true in the last block, for all of its threads. Barriers and the
// fences of one thread make what other blocks wrote before visible to all threads of the last block.
__device__ __forceinline__ bool last_block(Control* control) {
  __shared__ bool last;
  __syncthreads();
  if (is_first_thread()) {
    __threadfence_system();
    last = atomicAdd(&control->arrived, 1ull) == gridDim.x - 1;
    __threadfence_system();
  }
  __syncthreads();
  return last;
}

// Ends the operation; the first warp of the last block. `entries()` names the words that show which
// ranks have entered, for use after a failure.
template <class EntrySource>
__device__ __forceinline__ void end_epoch(const WaitContext& w, Receipt receipt, EntrySource entries) {
  // Relaxed, all loads at once: last_block() provides the order, and separate waits take longer.
  u64 abort = load_relaxed_system(&w.control->abort);
  u64 ticket = w.control->ticket;
  count_operation(w.control, w.control->operations);
  if (!is_first_lane()) {
    return;
  }
  w.control->arrived = 0;
  w.control->senders = 0;
  w.control->jobs = 0;
  store_relaxed_system(&w.control->running, 0);
  if (abort == w.epoch) {
    attribute_timeout(w, entries);
  }
  // A graph replays an old ticket: the word must not decrease.
  if (receipt.ticket > ticket) {
    w.control->ticket = receipt.ticket;
    store_release_system(receipt.completed, receipt.ticket);
  }
  store_release_gpu(&w.control->epoch, w.epoch);
}

// Sets `running`. Not 0 if the kernel must end at once: an earlier operation has failed, or the
// rank is fenced. All threads; a block works only if no thread gets a nonzero value.
__device__ __forceinline__ u64 exit_reason(Control* control) {
  if (is_first_thread()) {
    store_relaxed_system(&control->running, 1);
  }
  return load_relaxed_system(&control->failed) | load_relaxed_system(&control->fenced_by);
}

// Reports to the host that a block leaves because the rank is fenced; blocks that checked earlier
// then abort too. All threads.
__device__ __forceinline__ void report_fenced(const WaitContext& w) {
  if (is_first_thread() && is_fenced(w)) {
    fail_wait(w, PHASE_ENTER, 0, w.epoch, 0);
  }
}

// True if the kernel must end at once. All threads.
template <class EntrySource>
__device__ __forceinline__ bool exit_early(const WaitContext& w, Receipt receipt, EntrySource entries) {
  if (!__syncthreads_or(exit_reason(w.control) != 0)) {
    return false;
  }
  report_fenced(w);
  if (last_block(w.control) && threadIdx.x < 32) {
    end_epoch(w, receipt, entries);
  }
  return true;
}
