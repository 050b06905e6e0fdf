// EXPERT_MAJOR: the state that blocks need before they send and receive, from counts or from the
// handle.
#pragma once
#include "dispatch/expert_layout.cuh"
#include "dispatch/finish.cuh"

// First slot of each source.
__device__ __forceinline__ void find_arrivals(const DispatchParameters& p, const RankSlots& slots) {
  if (warp_id() == 0) {
    scan_loaded(
        (u32)p.ranks, [&](u32 s) { return slots.arriving[s]; },
        [&](u32 s, u32 before, u32) { slots.first[s] = before; });
  }
  __syncthreads();
}

// Block 0 calls `extra_work` after it has published this rank's counts.
template <class ExtraWork>
__device__ __forceinline__ void compute_layout(const DispatchParameters& p, const WaitContext& w, TokenRange token_range,
                                        const RankSlots& slots, const ExpertGroups& groups,
                                        u32* tile_words, const Choices& choices, ExtraWork extra_work) {
  Tiles tiles(tile_words, (u32)p.ranks, (u32)p.tile_warps);
  NumberedExperts experts(p, tile_words + Tiles::words((u32)p.ranks, (u32)p.tile_warps));
  count_token_range(p, w, token_range, tiles, experts, choices);
  if (blockIdx.x < p.push_blocks) {
    publish_block(p, w, tiles, experts);
    publish_rank(p, w);
  }
  if (blockIdx.x == 0) {
    extra_work();
  }
  find_slots(p, w, slots, tiles, (u32)p.receive_slots);
  find_groups(p, w, groups, slots);
  refuse_overflow(p, slots);
  resolve_rows(p, token_range, slots, groups);
  if (blockIdx.x == 0) {
    write_group_totals(p, w, slots, groups);
  }
}

__device__ __forceinline__ void restore(const DispatchParameters& p, const WaitContext& w,
                                       const RankSlots& slots, const ExpertGroups& groups) {
  publish_ready(p, w);
  await_ready(p, w);
  restore_slots(p, slots);
  restore_groups(p, groups);
  if (blockIdx.x == 0) {
    repeat_group_totals(p, slots);
  }
}
