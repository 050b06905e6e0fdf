// Where the rows of a combine lie, as their holders publish it, and the end of the combine.
//
// Words in the region of rank d; writer: rank s; reader: d:
//   places[s]   two words: offsets of the rows and of their weights in the region of s. 0: d cannot
//               read them there, so s pushes its rows. WITHDRAWN: s has given the operation up, and
//               its caller may overwrite the rows.
// Memory order: relaxed; `ready` (release) follows the offsets, and d reads them after it has
// acquired `ready`. All ranks read the same words and so come to the same decision: rows are pulled
// if the rows of every rank can be read.
//
// End: d publishes `done` to every rank once all of its blocks have read the places and its rows; s
// awaits the `done` of every rank before it returns. So the caller of s may overwrite the rows then,
// and s writes its next places when no block reads these any more. A rank that fails withdraws its
// rows before its kernel ends; d looks at the places again after its last read, so d does not return
// sums of rows that were overwritten meanwhile.
#pragma once
#include "combine/combine_parameters.cuh"

constexpr u64 NOT_READABLE = 0;
constexpr u64 WITHDRAWN = ~0ull;

enum Decision { PULL, PUSH, FAILED };

// The rows of all ranks, null for missing ranks: arrays [ranks] in shared memory.
struct ReadableRows {
  const char** rows;  // column `column` of the first row
  const float** weights;

  __device__ __forceinline__ ReadableRows(char* shared, u64 ranks)
      : rows((const char**)shared), weights((const float**)shared + ranks) {}
};

// The words of a holder in the region of rank `at`.
__device__ __forceinline__ u64* places_of(const CombineParameters& p, u32 at, u32 holder) {
  return (u64*)(p.peers[at] + p.places_offset) + 2 * holder;
}

// Tells the ranks of this node that this rank has entered, and where its rows are.
__device__ __forceinline__ void publish_places(const CombineParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; blockIdx.x == 0 && r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr) {
      u64* places = places_of(p, r, (u32)p.rank);
      store_relaxed_system(places, p.rows_place);
      store_relaxed_system(places + 1, p.weights_place);
      store_release_system((u64*)(p.peers[r] + p.ready_offset) + p.rank, w.epoch);
    }
  }
}

// Waits until all ranks have entered and fills `readable`; all threads.
__device__ __forceinline__ Decision await_places(const CombineParameters& p, const WaitContext& w,
                                                 u32 element_bytes, const ReadableRows& readable) {
  bool failed = false;
  bool pushes = false;
  const u64* ready = (const u64*)(p.peers[p.rank] + p.ready_offset);
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    const char* region = p.peers[r];
    readable.rows[r] = nullptr;
    readable.weights[r] = nullptr;
    if (region == nullptr) {
      continue;
    }
    failed = !wait_epoch(w, ready + r, PHASE_ENTER, r, blockIdx.x == 0) || failed;
    const u64* places = places_of(p, (u32)p.rank, r);
    u64 rows = load_relaxed_system(places);
    if (rows == WITHDRAWN) {
      fail_wait(w, PHASE_ROWS, r, w.epoch, 0);
      failed = true;
    }
    pushes = rows == NOT_READABLE || pushes;
    readable.rows[r] = region + rows + p.column * element_bytes;
    readable.weights[r] = (const float*)(region + load_relaxed_system(places + 1));
  }
  if (__syncthreads_or(failed)) {
    return FAILED;
  }
  return __syncthreads_or(pushes) ? PUSH : PULL;
}

// After the last read of all blocks: tells the other ranks and awaits them. All threads of the last
// block. `pulled`: this rank has read rows where their holders keep them; another one has sums of
// what was pushed, and may not have acquired the places of this epoch.
__device__ __forceinline__ void end_reading(const CombineParameters& p, const WaitContext& w,
                                            bool pulled) {
  for (u32 r = threadIdx.x; pulled && r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr &&
        load_relaxed_system(places_of(p, (u32)p.rank, r)) == WITHDRAWN) {
      fail_wait(w, PHASE_ROWS, r, w.epoch, 0);
    }
  }
  __syncthreads();
  // All ranks are notified before any is awaited, see finish.cuh.
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    char* region = p.peers[r];
    if (region != nullptr && !aborted(w)) {
      store_release_system((u64*)(region + p.done_offset) + p.rank, w.epoch);
    }
  }
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr && !aborted(w)) {
      wait_epoch(w, (const u64*)(p.peers[p.rank] + p.done_offset) + r, PHASE_ROWS, r, true);
    }
  }
  __syncthreads();
}

// Fails for the ranks whose rows cannot be read; all threads.
__device__ __forceinline__ void refuse_places(const CombineParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr &&
        load_relaxed_system(places_of(p, (u32)p.rank, r)) == NOT_READABLE) {
      fail_wait(w, PHASE_ROWS, r, w.epoch, 0);
    }
  }
}

// Before a kernel that failed ends. All threads of the last block.
__device__ __forceinline__ void withdraw_rows(const CombineParameters& p) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr) {
      store_relaxed_system(places_of(p, r, (u32)p.rank), WITHDRAWN);
    }
  }
  __threadfence_system();
  __syncthreads();
}

// The end of a combine that publishes places. All threads of all blocks.
__device__ __forceinline__ void end_pulls(const CombineParameters& p, const WaitContext& w,
                                          Decision decision) {
  if (!last_block(w.control)) {
    return;
  }
  if (decision != FAILED) {
    end_reading(p, w, decision == PULL);
  }
  if (aborted(w)) {
    withdraw_rows(p);
  }
  if (threadIdx.x < 32) {
    end_epoch(w, p.receipt, CombineEntrySignals{p});
  }
}
