// EXPERT_MAJOR: rows without a token, at the ends of the groups and after the last group.
#pragma once
#include "dispatch/expert_layout.cuh"

__device__ __forceinline__ void clear_bytes(char* at, u64 bytes) {
  if ((((u64)at | bytes) & 15) == 0) {
    for (u64 i = lane_id(); i < bytes / 16; i += 32) {
      ((uint4*)at)[i] = make_uint4(0, 0, 0, 0);
    }
  } else {
    for (u64 i = lane_id(); i < bytes; i += 32) {
      at[i] = 0;
    }
  }
}

// Marks a row without a token; one warp.
__device__ __forceinline__ void mark_empty(const DispatchParameters& p, u64 row, bool zero) {
  char* region = p.peers[p.rank];
  if (is_first_lane()) {
    ((int*)(region + p.tokens_offset))[row] = -1;
    ((int*)(region + p.sources_offset))[row] = -1;
    if (!p.cached) {
      ((float*)(region + p.weights_offset))[row] = 0;
    }
  }
  if (zero) {
    clear_bytes(region + p.rows_offset + row * p.row_bytes, p.row_bytes);
    if (p.scales != nullptr) {
      clear_bytes(region + p.scales_offset + row * p.scale_bytes, p.scale_bytes);
    }
  }
}

// Warp `warp` of `warps`.
__device__ __forceinline__ void mark_padding(const DispatchParameters& p, const ExpertGroups& groups,
                                             u32 warp, u32 warps) {
  for (u32 l = 0; l < p.local_experts; l++) {
    u64 next = min((u64)groups.starts[l + 1], p.limit);
    for (u64 row = groups.starts[l] + groups.rows[l] + warp; row < next; row += warps) {
      mark_empty(p, row, p.zero);
    }
  }
  if (p.fixed_rows) {
    for (u64 row = groups.starts[p.local_experts] + warp; row < p.limit; row += warps) {
      mark_empty(p, row, false);
    }
  }
}
