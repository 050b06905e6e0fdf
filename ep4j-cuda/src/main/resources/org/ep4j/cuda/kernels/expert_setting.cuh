// EXPERT_MAJOR: what blocks know before they send and receive, from counts or from the handle.
#pragma once
#include "expert_layout.cuh"
#include "finish.cuh"

// Where the slots of each source begin.
__device__ __forceinline__ void find_arrivals(const DispatchParameters& p, const Slots& slots) {
  for (u32 s = threadIdx.x; s < p.ranks; s += blockDim.x) {
    u32 first = 0;
    for (u32 before = 0; before < s; before++) {
      first += slots.arriving[before];
    }
    slots.first[s] = first;
  }
  __syncthreads();
}

// Block 0 calls `besides` once it has told this rank's counts.
template <class Besides>
__device__ __forceinline__ void lay_out(const DispatchParameters& p, const Watch& w, Chunk chunk,
                                        const Slots& slots, const ExpertGroups& groups,
                                        u32* tile_words, Besides besides) {
  Tiles tiles(tile_words, (u32)p.ranks, (u32)p.tile_warps);
  NumberedExperts experts(p, tile_words + Tiles::words((u32)p.ranks, (u32)p.tile_warps));
  count_chunk(p, w, chunk, tiles, experts);
  if (blockIdx.x < p.push_blocks) {
    publish_block(p, w, tiles, experts);
    publish_rank(p, w);
  }
  if (blockIdx.x == 0) {
    besides();
  }
  find_slots(p, w, slots, tiles, (u32)p.landing_rows);
  find_groups(p, w, groups, slots);
  resolve_rows(p, chunk, slots, groups);
  if (blockIdx.x == 0) {
    write_group_totals(p, w, slots, groups);
  }
}

__device__ __forceinline__ void recall(const DispatchParameters& p, const Watch& w,
                                       const Slots& slots, const ExpertGroups& groups) {
  say_ready(p, w);
  await_ready(p, w);
  recall_slots(p, slots);
  recall_groups(p, groups);
  if (blockIdx.x == 0) {
    repeat_group_totals(p);
  }
}
