// EXPERT_MAJOR: from routing to rows. Each pair of a token and an expert has a row at the expert's
// rank: a group begins at the aligned end of the previous expert's group, and inside a group pairs
// are ordered by source rank and token. Every block derives the rows of its own tokens from the
// counts of all ranks and of the blocks before it, so a sender knows the destination of its rows.
#pragma once
#include "dispatch/totals.cuh"

// Numbers the pairs of each expert in tiles and stores the numbers as entries, relative to the
// block.
struct NumberedExperts {
  const DispatchParameters& p;
  Tiles tiles;

  // All threads.
  __device__ __forceinline__ NumberedExperts(const DispatchParameters& p, u32* words)
      : p(p), tiles(words, (u32)p.experts, (u32)p.tile_warps) {}

  __device__ __forceinline__ void clear() { tiles.clear(); }
  __device__ __forceinline__ void mark(u32 expert) { tiles.mark(expert); }
  __device__ __forceinline__ void close() { tiles.close(); }
  __device__ __forceinline__ u32 count(u32 expert) const { return tiles.running[expert]; }

  // One thread, for its token. Refused choices get NO_ROUTE: they are not marked, or repeat one that is.
  // `valid`: none is refused.
  __device__ __forceinline__ void write_entries(u32 token, bool valid) const {
    u64 first = (u64)token * p.top_k;
    for (u32 k = 0; k < p.top_k; k++) {
      u64 at = first + k;
      i64 id = expert_of(p, at);
      bool counts = (u64)id < p.experts && p.placement[id] >> 16 < p.ranks && tiles.has((u32)id);
      for (u32 j = 0; counts && !valid && j < k; j++) {
        counts = expert_of(p, first + j) != id;
      }
      p.entries[at] =
          counts ? pack_route(p.placement[id] >> 16, tiles.number((u32)id)) : NO_ROUTE;
    }
  }
};

// A block's view of the groups; shared memory.
struct ExpertGroups {
  u32* base;    // [experts] row of this block's first pair of the expert, at the expert's rank
  u32* total;   // [experts] pairs of all ranks
  u32* starts;  // [local_experts + 1] first rows of this rank's groups
  u32* rows;    // [local_experts] pairs in them

  __device__ __forceinline__ ExpertGroups(u32* words, u64 experts, u64 local_experts)
      : base(words),
        total(words + experts),
        starts(total + experts),
        rows(starts + local_experts + 1) {}
};

// Pairs of an expert on all ranks; `before`: those of ranks before this one.
__device__ __forceinline__ u32 sum_ranks(const DispatchParameters& p, const WaitContext& w, u32 expert,
                                         u32& before) {
  constexpr u32 UNROLL = 16;
  u32 i = (u32)p.ranks + expert;
  // Once: loads of words are not reordered, so the table of the peers would be read for each of them.
  const u64* counts = counts_of(p, (u32)p.rank, 0);
  u32 stride = count_words(p);
  u32 all = 0;
  before = 0;
  for (u32 first = 0; first < p.ranks; first += UNROLL) {
    u64 seen[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      seen[j] = first + j < p.ranks ? load_relaxed_system(&counts[(first + j) * stride + i]) : 0;
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

// Adds the first row of each group to the rows of a rank. `lanes` lanes of a warp, a power of two, serve a rank, as
// many experts at a time; all lanes, those without a rank with `rank` = ranks.
__device__ __forceinline__ void place_groups(const DispatchParameters& p, const ExpertGroups& groups,
                                             const RankSlots& slots, u32 rank, u32 lanes) {
  bool some = rank < p.ranks;
  u32 begin = some ? p.order[rank] : 0;
  u32 count = some ? p.order[rank + 1] - begin : 0;
  const u32* experts = p.order + p.ranks + 1 + begin;
  u32 alignment = some ? slots.alignment[rank] : 1;
  u32 lane = lane_id() % lanes;
  u32 start = 0;
  for (u32 first = 0; __any_sync(0xffffffff, first < count); first += lanes) {
    u32 l = first + lane;
    u32 expert = l < count ? experts[l] : 0;
    u32 rows = l < count ? groups.total[expert] : 0;
    u32 size = round_up(rows, alignment);
    u32 end = size;
    for (u32 step = 1; step < lanes; step *= 2) {
      u32 before = __shfl_up_sync(0xffffffff, end, step);
      end += lane >= step ? before : 0;
    }
    end += start;
    if (l < count) {
      groups.base[expert] += end - size;
      if (rank == p.rank) {
        groups.starts[l + 1] = end;
        groups.rows[l] = rows;
      }
    }
    start = __shfl_sync(0xffffffff, end, lane_id() | (lanes - 1));
  }
  if (some && ask_anew(lane) == 0) {
    slots.needed[rank] = start;
    if (rank == p.rank) {
      groups.starts[0] = 0;
    }
  }
}

// All blocks: waits for the pairs of all ranks and derives the groups.
__device__ __forceinline__ void find_groups(const DispatchParameters& p, const WaitContext& w,
                                            const ExpertGroups& groups, const RankSlots& slots) {
  u32 experts = (u32)p.experts;
  for (u32 e = threadIdx.x; e < experts; e += blockDim.x) {
    groups.base[e] = 0;
  }
  __syncthreads();
  // Several threads share the earlier blocks of an expert.
  u32 parts = max(1u, blockDim.x / experts);
  for (u32 i = threadIdx.x; i < experts * parts; i += blockDim.x) {
    u32 part = i / experts;
    u32 e = i - part * experts;
    u32 first = earlier_blocks(p) * part / parts;
    u32 end = earlier_blocks(p) * (part + 1) / parts;
    u64 words = p.ranks + p.experts;
    atomicAdd(&groups.base[e],
              sum_tagged(w, p.block_counts + first * words + p.ranks + e, end - first, words));
  }
  for (u32 e = threadIdx.x; e < experts; e += blockDim.x) {
    u32 before;
    groups.total[e] = sum_ranks(p, w, e, before);
    atomicAdd(&groups.base[e], before);
  }
  __syncthreads();
  // Ranks that have few experts share a warp.
  u32 lanes = 1;
  while (lanes < 32 && lanes * p.ranks < experts) {
    lanes *= 2;
  }
  for (u32 first = threadIdx.x / 32 * 32 / lanes; first < p.ranks; first += blockDim.x / lanes) {
    place_groups(p, groups, slots, min(first + lane_id() / lanes, (u32)p.ranks), lanes);
  }
  __syncthreads();
}

// The same from the handle, limited to what a cached dispatch needs.
__device__ __forceinline__ void restore_groups(const DispatchParameters& p, const ExpertGroups& groups) {
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    groups.starts[l] = p.group_starts[l];
    groups.rows[l] = p.group_rows[l];
  }
  if (is_first_thread()) {
    groups.starts[p.local_experts] = p.group_starts[p.local_experts];
  }
  __syncthreads();
}

// The first of a token's rows at a rank, or NO_ROW; entries are absolute.
__device__ __forceinline__ u32 first_row(const u64* entries, u32 top_k, u32 rank) {
  constexpr u32 UNROLL = 8;
  u32 row = NO_ROW;
  for (u32 first = 0; first < top_k; first += UNROLL) {
    u64 held[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      held[j] = first + j < top_k ? entries[first + j] : NO_ROUTE;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      row = route_rank(held[j]) == rank ? min(row, route_slot(held[j])) : row;
    }
  }
  return row;
}

// What orders and multiplies the rows of a choice in a combine in the order of experts; the handle
// keeps it, because the caller's routing may be gone by then.
__device__ __forceinline__ void keep_choice(const DispatchParameters& p, u64 at) {
  p.kept_ids[at] = p.logical_ids == nullptr ? expert_of(p, at)
                   : p.wide_logical_ids     ? ((const i64*)p.logical_ids)[at]
                                            : ((const int*)p.logical_ids)[at];
  if (p.weights != nullptr) {
    p.kept_weights[at] = p.weights[at];
  }
}

// Makes entries and routes of the range absolute and finds the target row of each route. Choices
// whose rows the rank of the expert does not accept lose their entries.
__device__ __forceinline__ void resolve_rows(const DispatchParameters& p, TokenRange token_range,
                                             const RankSlots& slots, const ExpertGroups& groups) {
  u32 top_k = (u32)p.top_k;
  u64 end = (u64)token_range.end * top_k;
  for (u64 i = (u64)token_range.begin * top_k + threadIdx.x; i < end; i += blockDim.x) {
    u64 entry = p.entries[i];
    if (entry != NO_ROUTE) {
      entry += groups.base[expert_of(p, i)];
      p.entries[i] = route_slot(entry) < slots.accepted[route_rank(entry)] ? entry : NO_ROUTE;
      keep_choice(p, i);
    }
  }
  __syncthreads();
  for (u64 i = (u64)token_range.begin * top_k + threadIdx.x; i < end; i += blockDim.x) {
    u64 route = p.routes[i];
    if (route != NO_ROUTE) {
      u32 rank = route_rank(route);
      u32 slot = slots.base[rank] + route_slot(route);
      u64* entries = p.entries + i / top_k * top_k;
      u32 row = first_row(entries, top_k, rank);
      bool sent = slot < slots.limit[rank];
      p.routes[i] = sent ? pack_route(rank, slot) : NO_ROUTE;
      p.targets[i] = row;
      // Writes no entry of another rank: the thread of that route may clear it at the same time.
      for (u32 k = 0; !sent && k < top_k; k++) {
        if (route_rank(entries[k]) == rank) {
          entries[k] = NO_ROUTE;
        }
      }
    }
  }
  __syncthreads();
}

// All threads of block 0.
__device__ __forceinline__ void write_group_totals(const DispatchParameters& p, const WaitContext& w,
                                                   const RankSlots& slots, const ExpertGroups& groups) {
  __shared__ u32 pairs;
  if (is_first_thread()) {
    pairs = 0;
    p.expert_offsets[0] = 0;
    p.group_starts[0] = 0;
  }
  __syncthreads();
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    write_expert_counts(p, l, groups.rows[l]);
    p.expert_offsets[l + 1] = groups.starts[l + 1];
    p.group_starts[l + 1] = groups.starts[l + 1];
    atomicAdd(&pairs, groups.rows[l]);
  }
  __syncthreads();
  publish_totals(p, w, slots, pairs);
}

// Writes the offsets of the handle again; see repeat_totals. All threads of block 0.
__device__ __forceinline__ void repeat_group_totals(const DispatchParameters& p, const RankSlots& slots) {
  repeat_totals(p, slots);
  for (u32 l = threadIdx.x; l <= p.local_experts; l += blockDim.x) {
    p.expert_offsets[l] = p.group_starts[l];
  }
}
