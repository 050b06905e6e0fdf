// What a dispatch delivers, in numbers: computed by block 0 once the counts of all ranks are here,
// for the host (mapped memory) and for the kernel that expands rows.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ u32 round_up(u32 value, u64 alignment) {
  return (u32)((value + alignment - 1) / alignment * alignment);
}

// All threads of block 0. Shared: `needed` [ranks] and `local` [local_experts], any content.
__device__ __forceinline__ void write_totals(const DispatchParameters& p, const Watch& w,
                                             u32* needed, u32* local) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    needed[r] = 0;
  }
  __syncthreads();
  for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
    u32 owner = p.placement[e] >> 16;
    if (!p.expert_major && owner != p.rank) {
      continue;
    }
    u32 total = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      total += wait_tagged(w, &counts_of(p, p.rank, s)[p.ranks + e], PHASE_COUNTS, s);
    }
    if (p.expert_major) {
      atomicAdd(&needed[owner], round_up(total, p.alignment));
    }
    if (owner == p.rank) {
      u32 l = p.placement[e] & 0xffff;
      local[l] = total;
      p.received[l] = total;
      p.aligned[l] = round_up(total, p.alignment);
      p.group_rows[l] = total;
    }
  }
  __syncthreads();
  if (!p.expert_major) {
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      for (u32 s = 0; s < p.ranks; s++) {
        needed[r] += p.matrix[s * p.ranks + r];
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 flat = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      p.rank_offsets[s] = flat;
      flat += p.matrix[s * p.ranks + p.rank];
    }
    p.rank_offsets[p.ranks] = flat;
    *p.flat_rows = (u32)min((u64)flat, p.expert_major ? p.staging_rows : p.limit);
    u32 row = 0;
    u32 pairs = 0;
    for (u32 l = 0; l < p.local_experts; l++) {
      p.expert_offsets[l] = row;
      p.group_starts[l] = row;
      row += round_up(local[l], p.alignment);
      pairs += local[l];
    }
    p.expert_offsets[p.local_experts] = row;
    p.group_starts[p.local_experts] = row;
    u32 crowded = 0;
    u32 room = 0;
    while (crowded < p.ranks) {
      room = wait_tagged(w, &counts_of(p, p.rank, crowded)[p.ranks + p.experts], PHASE_COUNTS,
                               crowded);
      if (needed[crowded] > room) {
        break;
      }
      crowded++;
    }
    p.totals[TOTAL_NEEDED] = needed[p.rank];
    p.totals[TOTAL_RECEIVED] = p.expert_major ? pairs : flat;
    p.totals[TOTAL_OVERFLOW_RANK] = crowded;
    p.totals[TOTAL_OVERFLOW_NEEDED] = crowded < p.ranks ? needed[crowded] : 0;
    p.totals[TOTAL_OVERFLOW_LIMIT] = room;
  }
  // All that the threads wrote for the host comes before the ticket.
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && !aborted(w)) {
    store_release_system(&p.totals[TOTAL_TICKET], p.counts_ticket);
  }
  __syncthreads();
}
