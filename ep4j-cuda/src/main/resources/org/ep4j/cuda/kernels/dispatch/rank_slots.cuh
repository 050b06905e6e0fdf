// The slots of a block's rows at each rank: from the counts of all ranks and of the blocks before it,
// or from the handle of an earlier dispatch.
#pragma once
#include "dispatch/layout.cuh"

// A block's slots at each rank; arrays [ranks] in shared memory.
struct RankSlots {
  u32* base;     // first slot of this block's rows
  u32* earlier;  // this rank's rows before them
  u32* rows;     // this block's rows
  u32* limit;    // slots of the rank
  u32* accepted;    // rows that the rank accepts; FLAT: equal to `limit`
  u32* alignment;   // of the rank's groups
  u32* needed;   // rows that the rank would have to accept, for the totals
  u32* arriving;  // rows that this rank receives from the rank
  u32* first;     // EXPERT_MAJOR: first slot here of those rows
  u32* received;  // [1] sum of `arriving`

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
    if (threadIdx.x == 0) {
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

// Number of sending blocks before this one; 0 if this block does not send.
__device__ __forceinline__ u32 earlier_blocks(const DispatchParameters& p) {
  return blockIdx.x < p.push_blocks ? blockIdx.x : 0;
}

// Takes a counter that a rank publishes; one thread.
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
    // A missing rank publishes no alignment and receives no rows.
    slots.alignment[rank] = max(1u, value);
  }
}

// All blocks: waits for the row counts between all ranks; block 0 writes them into the handle. A
// rank has `max_slots` slots; if that is 0, as many as its published limit.
__device__ __forceinline__ void find_slots(const DispatchParameters& p, const WaitContext& w,
                                           const RankSlots& slots, const Tiles& tiles, u32 max_slots) {
  u32 ranks = (u32)p.ranks;
  u32 words = ranks + (u32)p.experts;
  slots.clear(ranks);
  // All words in one pass, so that a thread waits once: those of the earlier blocks of this rank; then
  // of each rank its rows to all ranks, its limit, its alignment.
  u32 of_blocks = earlier_blocks(p) * ranks;
  u32 of_rank = ranks + 2;
  auto block_word = [&](u32 i) { return &p.block_counts[i / ranks * words + i % ranks]; };
  auto rank_word = [&](u32 i) { return i % of_rank < ranks ? i % of_rank : limit_word(p) + i % of_rank - ranks; };
  for_each_loaded(
      of_blocks + ranks * of_rank, threadIdx.x, blockDim.x,
      [&](u32 i) {
        u32 r = i - of_blocks;
        return load_relaxed_system(
            i < of_blocks ? block_word(i) : &counts_of(p, (u32)p.rank, r / of_rank)[rank_word(r)]);
      },
      [&](u32 i, u64 seen) {
        if (i < of_blocks) {
          u32 rows = tag_is(seen, w.epoch) ? (u32)seen : wait_tagged(w, block_word(i), PHASE_BLOCKS, 0, NO_WRITER);
          atomicAdd(&slots.earlier[i % ranks], rows);
          atomicAdd(&slots.base[i % ranks], rows);
        } else {
          u32 r = i - of_blocks;
          u32 word = rank_word(r);
          take_count(p, slots, tiles, max_slots, r / of_rank, word, count_of(p, w, r / of_rank, word, seen));
        }
      });
  __syncthreads();
}

// The same from the handle of an earlier dispatch; blocks get equal parts.
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
