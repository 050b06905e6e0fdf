// Totals of a dispatch. Block 0 computes them from the counts of all ranks and writes them to
// mapped host memory.
#pragma once
#include "dispatch/layout.cuh"

__device__ __forceinline__ u32 round_up(u32 value, u32 alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Counts of a local expert for the host.
__device__ __forceinline__ void write_expert_counts(const DispatchParameters& p, u32 l, u32 rows) {
  p.received[l] = rows;
  p.aligned[l] = round_up(rows, (u32)p.alignment);
  p.group_rows[l] = rows;
}

// All threads of block 0, after their own writes for the host. `needed` [ranks]: rows that each
// rank would have to accept; `received`: rows that this rank receives.
__device__ __forceinline__ void publish_totals(const DispatchParameters& p, const WaitContext& w,
                                          const u32* needed, u32 received) {
  if (threadIdx.x == 0) {
    // Of the ranks without room for their rows, the rank that needs the most: its number suffices
    // for all.
    u32 overflow_rank = p.ranks;
    u32 max_needed = 0;
    u32 room = 0;
    for (u32 r = 0; r < p.ranks; r++) {
      const u32 limit = wait_count(p, w, r, limit_word(p));
      if (needed[r] > limit && needed[r] > max_needed) {
        overflow_rank = r;
        max_needed = needed[r];
        room = limit;
      }
    }
    p.totals[TOTAL_NEEDED] = needed[p.rank];
    p.totals[TOTAL_RECEIVED] = received;
    p.totals[TOTAL_OVERFLOW_RANK] = overflow_rank;
    p.totals[TOTAL_OVERFLOW_NEEDED] = max_needed;
    p.totals[TOTAL_OVERFLOW_LIMIT] = room;
  }
  // Orders all threads' writes for the host before the ticket.
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && !aborted(w)) {
    store_release_system(&p.totals[TOTAL_TICKET], p.counts_ticket);
  }
  __syncthreads();
}

// First row of each source, and the number of all rows; one thread.
__device__ __forceinline__ void write_rank_offsets(const DispatchParameters& p) {
  u32 flat = 0;
  for (u32 s = 0; s < p.ranks; s++) {
    p.rank_offsets[s] = flat;
    flat += p.matrix[s * p.ranks + p.rank];
  }
  p.rank_offsets[p.ranks] = flat;
  *p.flat_rows = (u32)min((u64)flat, p.limit);
}

// FLAT; all threads of block 0.
__device__ __forceinline__ void write_totals(const DispatchParameters& p, const WaitContext& w,
                                             const RankSlots& slots) {
  for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
    if (p.placement[e] >> 16 == p.rank) {
      u32 total = 0;
      for (u32 s = 0; s < p.ranks; s++) {
        total += wait_count(p, w, s, (u32)p.ranks + e);
      }
      write_expert_counts(p, p.placement[e] & 0xffff, total);
    }
  }
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    u32 needed = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      needed += p.matrix[s * p.ranks + r];
    }
    slots.needed[r] = needed;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    write_rank_offsets(p);
  }
  publish_totals(p, w, slots.needed, *slots.received);
}

// Writes the handle's counts again, for a cached dispatch: the caller may have overwritten those of
// the first dispatch. All threads of block 0.
__device__ __forceinline__ void repeat_totals(const DispatchParameters& p) {
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    write_expert_counts(p, l, p.group_rows[l]);
  }
  if (threadIdx.x == 0) {
    write_rank_offsets(p);
  }
}
