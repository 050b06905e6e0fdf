// What a block knows of the rows between ranks, and the refusal of rows that do not fit.
#pragma once
#include "dispatch/dispatch_parameters.cuh"

// A block's slots at each rank; arrays [ranks] in shared memory.
struct RankSlots {
  u32* base;       // first slot of this block's rows
  u32* earlier;    // this rank's rows before them
  u32* rows;       // this block's rows
  u32* limit;      // slots of the rank; 0 if the dispatch is refused
  u32* accepted;   // rows that the rank accepts, for the totals; a refusal leaves them
  u32* alignment;  // of the rank's groups
  u32* needed;     // rows that the rank would have to accept, for the totals
  u32* arriving;   // rows that this rank receives from the rank; 0 if the dispatch is refused
  u32* first;      // EXPERT_MAJOR: first slot here of those rows
  u32* received;   // [1] sum of the rows for this rank; a refusal leaves it

  static constexpr u32 ARRAYS = 9;

  __device__ __forceinline__ RankSlots(u32* words, u64 ranks)
      : base(words),
        earlier(base + ranks),
        rows(earlier + ranks),
        limit(rows + ranks),
        accepted(limit + ranks),
        alignment(accepted + ranks),
        needed(alignment + ranks),
        arriving(needed + ranks),
        first(arriving + ranks),
        received(first + ranks) {}

  // All threads, before add().
  __device__ __forceinline__ void clear(u64 ranks) const {
    for (u32 d = threadIdx.x; d < ranks; d += blockDim.x) {
      base[d] = 0;
      earlier[d] = 0;
      needed[d] = 0;
    }
    if (threadIdx.x == 0) {
      *received = 0;
    }
    __syncthreads();
  }

  // Counts the rows that rank `source` sends to rank `target`; once for each pair of ranks.
  __device__ __forceinline__ void add(const DispatchParameters& p, u32 source, u32 target, u32 count) const {
    atomicAdd(&needed[target], count);
    if (source < p.rank) {
      atomicAdd(&base[target], count);
    }
    if (target == p.rank) {
      arriving[source] = count;
      atomicAdd(received, count);
    }
  }
};

// All threads of all blocks, between the counts and the routes: if a rank lacks room and the number of rows is
// not fixed, no rank sends or awaits rows. `needed` and `accepted` are equal in all blocks of all ranks, so all
// refuse without an exchange; the totals tell each host, which throws.
__device__ __forceinline__ void refuse_overflow(const DispatchParameters& p, const RankSlots& slots) {
  if (p.fixed_rows) {
    return;
  }
  bool lacks = false;
  for (u32 d = threadIdx.x; d < p.ranks; d += blockDim.x) {
    lacks = lacks || slots.needed[d] > slots.accepted[d];
  }
  if (__syncthreads_or(lacks)) {
    for (u32 d = threadIdx.x; d < p.ranks; d += blockDim.x) {
      slots.limit[d] = 0;
      slots.arriving[d] = 0;
    }
    __syncthreads();
  }
}
