// From routing to slots. Each block counts its own tokens, all blocks publish the sums to the
// peers, and with the counts of all ranks every block derives the slots of its tokens. No atomics
// on global memory, so rows are in token order.
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
                                          u32 i, bool witness = false) {
  return !publishes_counts(p, source) ? 0
         : wait_tagged(w, &counts_of(p, p.rank, source)[i], PHASE_COUNTS, source, writer_for(p, source), witness);
}

// The same for a word that was loaded before. The words of a missing rank are of earlier epochs.
__device__ __forceinline__ u32 count_of(const DispatchParameters& p, const WaitContext& w, u32 source,
                                        u32 i, u64 seen, bool witness = false) {
  return tag_is(seen, w.epoch) ? (u32)seen : wait_count(p, w, source, i, witness);
}

// Number of sending blocks before this one; 0 if this block does not send.
__device__ __forceinline__ u32 earlier_blocks(const DispatchParameters& p) {
  return blockIdx.x < p.push_blocks ? blockIdx.x : 0;
}

// A block's slots at each rank; arrays [ranks] in shared memory.
struct RankSlots {
  u32* base;       // first slot of this block's rows
  u32* earlier;    // this rank's rows before them
  u32* rows;       // this block's rows
  u32* limit;      // slots of the rank; 0 if the dispatch is refused
  u32* accepted;   // rows that the rank accepts, for the totals; a refusal leaves them
  u32* alignment;  // of the rank's groups
  u32* needed;     // rows that the rank would have to accept, for the totals
  u32* arriving;   // rows that this rank receives from the rank; 0 if the dispatch is refused
  u32* first;      // EXPERT_MAJOR: first slot here of those rows
  u32* received;   // [1] sum of the rows for this rank; a refusal leaves it

  static constexpr u32 ARRAYS = 9;

  __device__ __forceinline__ RankSlots(u32* words, u64 ranks)
      : base(words),
        earlier(base + ranks),
        rows(earlier + ranks),
        limit(rows + ranks),
        accepted(limit + ranks),
        alignment(accepted + ranks),
        needed(alignment + ranks),
        arriving(needed + ranks),
        first(arriving + ranks),
        received(first + ranks) {}

  // All threads, before add().
  __device__ __forceinline__ void clear(u64 ranks) const {
    for (u32 d = threadIdx.x; d < ranks; d += blockDim.x) {
      base[d] = 0;
      earlier[d] = 0;
      needed[d] = 0;
    }
    if (is_first_thread()) {
      *received = 0;
    }
    __syncthreads();
  }

  // Counts the rows that rank `source` sends to rank `target`; once for each pair of ranks.
  __device__ __forceinline__ void add(const DispatchParameters& p, u32 source, u32 target, u32 count) const {
    atomicAdd(&needed[target], count);
    if (source < p.rank) {
      atomicAdd(&base[target], count);
    }
    if (target == p.rank) {
      arriving[source] = count;
      atomicAdd(received, count);
    }
  }
};

// Takes a counter of a rank: its rows to a rank, its limit or its alignment. One thread.
__device__ __forceinline__ void take_count(const DispatchParameters& p, const RankSlots& slots,
                                           const Tiles& tiles, u32 max_slots, u32 rank, u32 word,
                                           u32 value) {
  u32 ranks = (u32)p.ranks;
  if (word < ranks) {
    slots.add(p, rank, word, value);
    if (blockIdx.x == 0) {
      p.matrix[rank * ranks + word] = value;
    }
  } else if (word == limit_word(p)) {
    u32 limit = max_slots > 0 ? max_slots : value;
    slots.rows[rank] = tiles.running[rank];
    slots.limit[rank] = limit;
    slots.accepted[rank] = value;
    if (blockIdx.x == 0) {
      p.matrix[ranks * ranks + rank] = limit;
    }
  } else {
    slots.alignment[rank] = max(1u, value);  // a missing rank publishes none and receives no rows
  }
}

// All blocks: waits for the row counts between all ranks; block 0 writes them into the handle. A
// rank has `max_slots` slots; if that is 0, as many as its published limit.
__device__ __forceinline__ void find_slots(const DispatchParameters& p, const WaitContext& w,
                                           const RankSlots& slots, const Tiles& tiles, u32 max_slots) {
  u32 ranks = (u32)p.ranks;
  u32 words = ranks + (u32)p.experts;
  slots.clear(ranks);
  // In one pass, so that a thread waits once: the words of the earlier blocks of this rank; then of
  // each rank its rows to all ranks, its limit, its alignment.
  u32 of_blocks = earlier_blocks(p) * ranks;
  u32 of_rank = ranks + 2;
  auto block_word = [&](u32 i) { return &p.block_counts[i / ranks * words + i % ranks]; };
  auto rank_word = [&](u32 i) { return i % of_rank < ranks ? i % of_rank : limit_word(p) + i % of_rank - ranks; };
  for_each_loaded(
      of_blocks + ranks * of_rank, threadIdx.x, blockDim.x,
      [&](u32 i) {
        u32 r = i - of_blocks;
        return load_relaxed_system(i < of_blocks ? block_word(i) : &counts_of(p, (u32)p.rank, r / of_rank)[rank_word(r)]);
      },
      [&](u32 i, u64 seen) {
        if (i < of_blocks) {
          u32 rows = tag_is(seen, w.epoch) ? (u32)seen : wait_tagged(w, block_word(i), PHASE_BLOCKS, 0, NO_WRITER, false);
          atomicAdd(&slots.earlier[i % ranks], rows);
          atomicAdd(&slots.base[i % ranks], rows);
        } else {
          u32 r = i - of_blocks;
          u32 word = rank_word(r);
          bool witness = blockIdx.x == 0 && word == 0;  // of a rank's words the first that a thread awaits
          take_count(p, slots, tiles, max_slots, r / of_rank, word, count_of(p, w, r / of_rank, word, seen, witness));
        }
      });
  __syncthreads();
}

// The same as find_slots from the handle of an earlier dispatch; blocks get equal parts.
__device__ __forceinline__ void restore_slots(const DispatchParameters& p, const RankSlots& slots) {
  u32 ranks = (u32)p.ranks;
  slots.clear(ranks);
  for_each_loaded(
      ranks * ranks, threadIdx.x, blockDim.x, [&](u32 i) { return p.matrix[i]; },
      [&](u32 i, u32 rows) { slots.add(p, i / ranks, i % ranks, rows); });
  for (u32 d = threadIdx.x; d < ranks; d += blockDim.x) {
    u64 all = p.matrix[p.rank * ranks + d];
    u32 first = all * blockIdx.x / gridDim.x;
    slots.earlier[d] = first;
    atomicAdd(&slots.base[d], first);
    slots.rows[d] = all * (blockIdx.x + 1) / gridDim.x - first;
    slots.limit[d] = p.matrix[ranks * ranks + d];
  }
  __syncthreads();
}

// Makes the routes of the range absolute and lists the tokens of each rank.
__device__ __forceinline__ void resolve_token_range(const DispatchParameters& p, TokenRange token_range,
                                              const RankSlots& slots) {
  for (u32 token = token_range.begin + threadIdx.x; token < token_range.end; token += blockDim.x) {
    u64* routes = p.routes + (u64)token * p.top_k;
    for (u32 k = 0; k < p.top_k && routes[k] != NO_ROUTE; k++) {
      u32 r = route_rank(routes[k]);
      u32 number = route_slot(routes[k]);
      u32 slot = slots.base[r] + number;
      p.lists[r * p.tokens + slots.earlier[r] + number] = token;
      routes[k] = slot < slots.limit[r] ? pack_route(r, slot) : NO_ROUTE;
    }
  }
  __syncthreads();
}
