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
  __device__ __forceinline__ void write_entries(u32, bool) {}
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
                                            const Choices& choices, bool valid) {
  if (valid) {
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
    bool valid = choices.valid(p);
    if (mine) {
      count_token(p, w, tiles, experts, token, choices, valid);
    }
    tiles.close();
    experts.close();
    if (mine) {
      u64* routes = p.routes + (u64)token * p.top_k;
      u32 n = 0;
      for_each_loaded<8>(
          (u32)p.ranks, 0, 1, [&](u32 r) { return tiles.has(r); },
          [&](u32 r, bool has) {
            if (has) {
              routes[n++] = pack_route(r, tiles.number(r));
            }
          });
      while (n < p.top_k) {
        routes[n++] = NO_ROUTE;
      }
      experts.write_entries(token, valid);
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
    for_each_loaded(
        (u32)p.ranks, lane_id(), 32, [&](u32 to) { return p.peers[to]; },
        [&](u32, char* region) {
          if (region != nullptr) {
            store_relaxed_system(&counts_in(p, region, (u32)p.rank)[i], tagged(w.epoch, value));
          }
        });
  }
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
};

// All blocks: waits for the row counts between all ranks; block 0 writes them into the handle. A
// rank has `max_slots` slots; if that is 0, as many as its published limit.
//
// The words of all ranks, and of the earlier blocks of this rank, have columns: rows to a rank, limits,
// alignments. Several threads share a column, each with several loads under way.
__device__ __forceinline__ void find_slots(const DispatchParameters& p, const WaitContext& w,
                                           const RankSlots& slots, const Tiles& tiles, u32 max_slots) {
  u32 ranks = (u32)p.ranks;
  u32 words = ranks + (u32)p.experts;
  u32 columns = ranks + 2;
  u32 parts = max(1u, blockDim.x / columns);
  const u64* counts = counts_of(p, (u32)p.rank, 0);
  u32 stride = count_words(p);
  slots.clear(ranks);
  for (u32 i = threadIdx.x; i < columns * parts; i += blockDim.x) {
    u32 column = i % columns;
    u32 word = column < ranks ? column : limit_word(p) + column - ranks;
    u32 needed = 0;
    u32 before = 0;
    u32 earlier = 0;
    for_each_loaded(
        ranks + (column < ranks ? earlier_blocks(p) : 0), i / columns, parts,
        [&](u32 from) {
          return load_relaxed_system(from < ranks ? &counts[from * stride + word]
                                                  : &p.block_counts[(from - ranks) * words + word]);
        },
        [&](u32 from, u64 seen) {
          if (from >= ranks) {
            earlier += tag_is(seen, w.epoch)
                           ? (u32)seen
                           : wait_tagged(w, &p.block_counts[(from - ranks) * words + word], PHASE_BLOCKS, 0, NO_WRITER, false);
            return;
          }
          bool witness = blockIdx.x == 0 && word == 0;  // of a rank's words the first that a thread awaits
          u32 value = count_of(p, w, from, word, seen, witness);
          if (column < ranks) {
            needed += value;
            before += from < p.rank ? value : 0;
            if (column == p.rank) {
              slots.arriving[from] = value;
            }
            if (blockIdx.x == 0) {
              p.matrix[from * ranks + column] = value;
            }
          } else if (word == limit_word(p)) {
            slots.rows[from] = tiles.running[from];
            slots.limit[from] = max_slots > 0 ? max_slots : value;
            slots.accepted[from] = value;
          } else {
            slots.alignment[from] = max(1u, value);  // a missing rank publishes none and receives no rows
          }
        });
    if (column < ranks) {
      atomicAdd(&slots.needed[column], needed);
      atomicAdd(&slots.base[column], before + earlier);
      atomicAdd(&slots.earlier[column], earlier);
    }
  }
  __syncthreads();
  if (is_first_thread()) {
    *slots.received = slots.needed[p.rank];
  }
  for (u32 d = threadIdx.x; blockIdx.x == 0 && d < ranks; d += blockDim.x) {
    matrix_row(p, ROW_LIMITS)[d] = slots.limit[d];
    matrix_row(p, ROW_BEFORE)[d] = slots.base[d];  // no block is earlier
  }
  __syncthreads();
}

// The same from the handle of an earlier dispatch, for what a cached dispatch needs; blocks get equal
// parts.
__device__ __forceinline__ void restore_slots(const DispatchParameters& p, const RankSlots& slots) {
  u32 ranks = (u32)p.ranks;
  slots.clear(ranks);
  for (u32 r = threadIdx.x; r < ranks; r += blockDim.x) {
    u32 arriving = p.matrix[r * ranks + p.rank];
    u64 all = p.matrix[p.rank * ranks + r];
    u32 first = all * blockIdx.x / gridDim.x;
    slots.arriving[r] = arriving;
    atomicAdd(slots.received, arriving);
    slots.earlier[r] = first;
    slots.base[r] = matrix_row(p, ROW_BEFORE)[r] + first;
    slots.rows[r] = all * (blockIdx.x + 1) / gridDim.x - first;
    slots.limit[r] = matrix_row(p, ROW_LIMITS)[r];
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
