// What a dispatch delivers, in numbers: computed by block 0 once the counts of all ranks are here,
// for the host (mapped memory) and for the kernel that expands rows.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ u32 round_up(u32 value, u32 alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Where the groups begin, and all pairs: the first warp, 32 experts at a time. For EXPERT_MAJOR only.
__device__ __forceinline__ u32 write_groups(const DispatchParameters& p, const u32* local) {
  u32 start = 0;
  u32 pairs = 0;
  for (u32 first = 0; first < p.local_experts; first += 32) {
    u32 l = first + lane_id();
    u32 rows = l < p.local_experts ? local[l] : 0;
    u32 end = round_up(rows, (u32)p.alignment);
    for (u32 step = 1; step < 32; step *= 2) {
      u32 before = __shfl_up_sync(0xffffffff, end, step);
      end += lane_id() >= step ? before : 0;
    }
    end += start;
    if (l < p.local_experts) {
      p.expert_offsets[l + 1] = end;
      p.group_starts[l + 1] = end;
    }
    start = __shfl_sync(0xffffffff, end, 31);
    pairs += __reduce_add_sync(0xffffffff, rows);
  }
  if (lane_id() == 0) {
    p.expert_offsets[0] = 0;
    p.group_starts[0] = 0;
  }
  return pairs;
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
    if (owner != p.rank && (!p.expert_major || owner >= p.ranks)) {
      continue;
    }
    u32 total = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      total += wait_count(p, w, s, (u32)p.ranks + e);
    }
    if (p.expert_major) {
      atomicAdd(&needed[owner], round_up(total, (u32)p.alignment));
    }
    if (owner == p.rank) {
      u32 l = p.placement[e] & 0xffff;
      local[l] = total;
      p.received[l] = total;
      p.aligned[l] = round_up(total, (u32)p.alignment);
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
  u32 pairs = warp_id() == 0 && p.expert_major ? write_groups(p, local) : 0;
  if (threadIdx.x == 0) {
    u32 flat = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      p.rank_offsets[s] = flat;
      flat += p.matrix[s * p.ranks + p.rank];
    }
    p.rank_offsets[p.ranks] = flat;
    *p.flat_rows = (u32)min((u64)flat, p.expert_major ? p.staging_rows : p.limit);
    u32 crowded = 0;
    u32 room = 0;
    while (crowded < p.ranks) {
      room = wait_count(p, w, crowded, (u32)(p.ranks + p.experts));
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

// The counts of the handle again, for a cached dispatch: the caller may have written over what the
// first one told. All threads of block 0.
__device__ __forceinline__ void repeat_totals(const DispatchParameters& p) {
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    p.received[l] = p.group_rows[l];
    p.aligned[l] = round_up(p.group_rows[l], (u32)p.alignment);
    if (p.expert_major) {
      p.expert_offsets[l] = p.group_starts[l];
      p.expert_offsets[l + 1] = p.group_starts[l + 1];
    }
  }
  if (threadIdx.x == 0) {
    u32 flat = 0;
    for (u32 s = 0; s < p.ranks; s++) {
      p.rank_offsets[s] = flat;
      flat += p.matrix[s * p.ranks + p.rank];
    }
    p.rank_offsets[p.ranks] = flat;
  }
}
