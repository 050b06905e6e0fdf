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

// All threads of block 0, after their own writes for the host. `received`: rows that this rank
// receives.
__device__ __forceinline__ void publish_totals(const DispatchParameters& p, const WaitContext& w,
                                          const RankSlots& slots, u32 received) {
  if (warp_id() == 0) {
    // Of the ranks without room for their rows, the rank that needs the most: its number suffices
    // for all.
    u32 max_needed = 0;
    u32 overflow_rank = (u32)p.ranks;
    for (u32 r = lane_id(); r < p.ranks; r += 32) {
      u32 needed = slots.needed[r];
      if (needed > slots.accepted[r] && needed > max_needed) {
        max_needed = needed;
        overflow_rank = r;
      }
    }
    u32 largest = __reduce_max_sync(0xffffffff, max_needed);
    overflow_rank = __reduce_min_sync(0xffffffff, max_needed == largest ? overflow_rank : (u32)p.ranks);
    if (is_first_lane()) {
      p.totals[TOTAL_NEEDED] = slots.needed[p.rank];
      p.totals[TOTAL_RECEIVED] = received;
      p.totals[TOTAL_OVERFLOW_RANK] = overflow_rank;
      p.totals[TOTAL_OVERFLOW_NEEDED] = largest;
      p.totals[TOTAL_OVERFLOW_LIMIT] = largest > 0 ? slots.accepted[overflow_rank] : 0;
    }
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

// FLAT; all threads of block 0. `pairs` [local_experts] in shared memory.
__device__ __forceinline__ void write_totals(const DispatchParameters& p, const WaitContext& w,
                                             const RankSlots& slots, u32* pairs) {
  u32 local = (u32)p.local_experts;
  const u32* experts = p.order + p.ranks + 1 + p.order[p.rank];
  const u64* counts = counts_of(p, (u32)p.rank, 0);
  u32 stride = count_words(p);
  for (u32 l = threadIdx.x; l < local; l += blockDim.x) {
    pairs[l] = 0;
  }
  __syncthreads();
  auto word = [&](u32 i) { return (u32)p.ranks + experts[i % local]; };
  for_each_loaded(
      local * (u32)p.ranks, threadIdx.x, blockDim.x,
      [&](u32 i) { return load_relaxed_system(&counts[i / local * stride + word(i)]); },
      [&](u32 i, u64 seen) { atomicAdd(&pairs[i % local], count_of(p, w, i / local, word(i), seen)); });
  __syncthreads();
  for (u32 l = threadIdx.x; l < local; l += blockDim.x) {
    write_expert_counts(p, l, pairs[l]);
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
