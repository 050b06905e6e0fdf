// Totals of a dispatch, and its refusal where rows do not fit. Block 0 computes the totals from the
// counts of all ranks and writes them to mapped host memory.
#pragma once
#include "dispatch/layout.cuh"

__device__ __forceinline__ u32 round_up(u32 value, u32 alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

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

// Counts of a local expert for the host. One thread an expert.
__device__ __forceinline__ void write_expert_counts(const DispatchParameters& p, u32 l, u32 rows) {
  p.received[l] = rows;
  p.aligned[l] = round_up(rows, (u32)p.alignment);
  p.group_rows[l] = rows;
  count_tokens((Control*)p.peers[p.rank], p.ranks, l, rows);
}

// Pairs of an expert on all ranks; `before`: those of ranks before this one.
__device__ __forceinline__ u32 sum_ranks(const DispatchParameters& p, const WaitContext& w, u32 expert,
                                         u32& before) {
  constexpr u32 UNROLL = 16;
  u32 i = (u32)p.ranks + expert;
  u32 all = 0;
  before = 0;
  for (u32 first = 0; first < p.ranks; first += UNROLL) {
    u64 seen[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      seen[j] = first + j < p.ranks ? load_relaxed_system(&counts_of(p, p.rank, first + j)[i]) : 0;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      u32 s = first + j;
      if (s < p.ranks) {
        u32 pairs = count_of(p, w, s, i, seen[j]);
        all += pairs;
        before += s < p.rank ? pairs : 0;
      }
    }
  }
  return all;
}

// All threads of block 0, after their own writes for the host. `received`: rows that this rank
// receives.
__device__ __forceinline__ void publish_totals(const DispatchParameters& p, const WaitContext& w,
                                          const RankSlots& slots, u32 received) {
  if (is_first_thread()) {
    // Of the ranks without room for their rows, the rank that needs the most: its number suffices
    // for all.
    u32 overflow_rank = p.ranks;
    u32 max_needed = 0;
    u32 room = 0;
    for (u32 r = 0; r < p.ranks; r++) {
      const u32 limit = slots.accepted[r];
      const u32 needed = slots.needed[r];
      if (needed > limit && needed > max_needed) {
        overflow_rank = r;
        max_needed = needed;
        room = limit;
      }
    }
    p.totals[TOTAL_NEEDED] = slots.needed[p.rank];
    p.totals[TOTAL_RECEIVED] = received;
    p.totals[TOTAL_OVERFLOW_RANK] = overflow_rank;
    p.totals[TOTAL_OVERFLOW_NEEDED] = max_needed;
    p.totals[TOTAL_OVERFLOW_LIMIT] = room;
  }
  // The barrier and the release order all threads' writes for the host before the ticket.
  __syncthreads();
  if (is_first_thread() && !aborted(w)) {
    store_release_system(&p.totals[TOTAL_TICKET], p.counts_ticket);
  }
}

// First row of each source, and the number of all rows; all threads.
__device__ __forceinline__ void write_rank_offsets(const DispatchParameters& p, const RankSlots& slots) {
  if (warp_id() == 0) {
    scan_loaded(
        (u32)p.ranks, [&](u32 s) { return slots.arriving[s]; },
        [&](u32 s, u32 before, u32) { p.rank_offsets[s] = before; });
  }
  if (is_first_thread()) {
    u32 flat = *slots.received;
    p.rank_offsets[p.ranks] = flat;
    *p.flat_rows = (u32)min((u64)flat, p.limit);
  }
}

// FLAT; all threads of block 0.
__device__ __forceinline__ void write_totals(const DispatchParameters& p, const WaitContext& w,
                                             const RankSlots& slots) {
  for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
    if (p.placement[e] >> 16 == p.rank) {
      u32 before;
      write_expert_counts(p, p.placement[e] & 0xffff, sum_ranks(p, w, e, before));
    }
  }
  write_rank_offsets(p, slots);
  publish_totals(p, w, slots, *slots.received);
}

// Writes the handle's counts again, for a cached dispatch: the caller may have overwritten those of
// the first dispatch. All threads of block 0.
__device__ __forceinline__ void repeat_totals(const DispatchParameters& p, const RankSlots& slots) {
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    write_expert_counts(p, l, p.group_rows[l]);
  }
  write_rank_offsets(p, slots);
}
