// From routing to counts. Each block counts its own tokens, and all blocks publish the sums to the
// peers. No atomics on global memory, so rows are in token order.
//
// block_counts[b][*]: writer: sending block b, with the epoch in the word; readers: all sending
// blocks.
#pragma once
#include "common/batched_loads.cuh"
#include "dispatch/routing.cuh"
#include "dispatch/tiles.cuh"

// Tokens of a block.
struct TokenRange {
  u32 begin;
  u32 end;

  static __device__ __forceinline__ TokenRange of(u64 tokens, u32 block, u32 blocks) {
    return TokenRange{(u32)(tokens * block / blocks), (u32)(tokens * (block + 1) / blocks)};
  }
};

// FLAT: the number of pairs of each expert.
struct CountedExperts {
  u32* counts;  // [experts] in shared memory

  // All threads.
  __device__ __forceinline__ CountedExperts(const DispatchParameters& p, u32* counts)
      : counts(counts) {
    for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
      counts[e] = 0;
    }
    __syncthreads();
  }

  __device__ __forceinline__ void clear() {}
  __device__ __forceinline__ void mark(u32 expert) { atomicAdd(&counts[expert], 1); }
  __device__ __forceinline__ void close() {}
  __device__ __forceinline__ void write_entries(u32) {}
  __device__ __forceinline__ u32 count(u32 expert) const { return counts[expert]; }
};

template <class Experts>
__device__ __forceinline__ void count_choice(const DispatchParameters& p, Tiles& tiles,
                                             Experts& experts, i64 id) {
  if (id >= 0 && p.placement[id] >> 16 < p.ranks) {
    tiles.mark(p.placement[id] >> 16);
    experts.mark((u32)id);
  }
}

template <class Experts>
__device__ __forceinline__ void count_token(const DispatchParameters& p, const WaitContext& w,
                                            Tiles& tiles, Experts& experts, u32 token,
                                            const Choices& choices) {
  if (choices.valid(p)) {
#pragma unroll
    for (u32 k = 0; k < Choices::MAX; k++) {
      count_choice(p, tiles, experts, choices.ids[k]);
    }
  } else {
    for (u32 k = 0; k < p.top_k; k++) {
      count_choice(p, tiles, experts, checked_expert(p, w, token, k));
    }
  }
}

// Counts the range and writes its routes relative to the block. An Experts counts or numbers the
// pairs of each expert in the same tiles: mark() as in Tiles, then write_entries() for each token
// of the tile. `choices`: of this thread's first token, which the kernel loads while it starts.
template <class Experts>
__device__ __forceinline__ void count_token_range(const DispatchParameters& p, const WaitContext& w, TokenRange token_range,
                                            Tiles& tiles, Experts& experts, Choices choices) {
  u32 step = tiles.warps * 32;
  for (u32 first = token_range.begin; first < token_range.end; first += step) {
    u32 token = first + threadIdx.x;
    bool mine = threadIdx.x < step && token < token_range.end;
    if (first != token_range.begin) {
      tiles.clear();
      experts.clear();
      choices.prefetch(p, token, token_range.end);
    }
    if (mine) {
      count_token(p, w, tiles, experts, token, choices);
    }
    tiles.close();
    experts.close();
    if (mine) {
      u64* routes = p.routes + (u64)token * p.top_k;
      u32 n = 0;
      for (u32 r = 0; r < p.ranks; r++) {
        if (tiles.has(r)) {
          routes[n++] = pack_route(r, tiles.number(r));
        }
      }
      while (n < p.top_k) {
        routes[n++] = NO_ROUTE;
      }
      experts.write_entries(token);
    }
  }
  __syncthreads();
}

template <class Experts>
__device__ __forceinline__ void publish_block(const DispatchParameters& p, const WaitContext& w,
                                              const Tiles& tiles, const Experts& experts) {
  u64* counts = p.block_counts + (u64)blockIdx.x * (p.ranks + p.experts);
  for (u32 i = threadIdx.x; i < p.ranks + p.experts; i += blockDim.x) {
    u32 value = i < p.ranks ? tiles.running[i] : experts.count(i - (u32)p.ranks);
    store_relaxed_system(&counts[i], tagged(w.epoch, value));
  }
}

// Sum of a counter over the blocks before `end`. One warp, because there are many blocks.
__device__ __forceinline__ u32 sum_blocks(const DispatchParameters& p, const WaitContext& w, u32 i,
                                          u32 end) {
  u64 words = p.ranks + p.experts;
  u32 mine = lane_id() < end ? (end - 1 - lane_id()) / 32 + 1 : 0;
  u32 sum = sum_tagged(w, p.block_counts + lane_id() * words + i, mine, 32 * words);
  return __reduce_add_sync(0xffffffff, sum);
}

// All sending blocks: each warp sums some counters of the rank and publishes them to all ranks.
__device__ __forceinline__ void publish_rank(const DispatchParameters& p, const WaitContext& w) {
  u32 blocks = (u32)p.push_blocks;
  for (u32 i = warp_id() * blocks + blockIdx.x; i < count_words(p);
       i += (blockDim.x >> 5) * blocks) {
    u32 value = i < limit_word(p)        ? sum_blocks(p, w, i, blocks)
                : i == limit_word(p)     ? (u32)p.limit
                : i == alignment_word(p) ? (u32)p.alignment
                                         : (u32)p.tokens;
    for (u32 to = lane_id(); to < p.ranks; to += 32) {
      if (is_live(p, to)) {
        store_relaxed_system(&counts_of(p, to, p.rank)[i], tagged(w.epoch, value));
      }
    }
  }
}

// Counter `i` of rank `source`; 0 if the rank is missing.
__device__ __forceinline__ u32 wait_count(const DispatchParameters& p, const WaitContext& w, u32 source,
                                          u32 i) {
  return publishes_counts(p, source)
             ? wait_tagged(w, &counts_of(p, p.rank, source)[i], PHASE_COUNTS, source, writer_for(p, source))
             : 0;
}

// The same for a word that was loaded before. The words of a missing rank are of earlier epochs.
__device__ __forceinline__ u32 count_of(const DispatchParameters& p, const WaitContext& w, u32 source,
                                        u32 i, u64 seen) {
  return tag_is(seen, w.epoch) ? (u32)seen : wait_count(p, w, source, i);
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
