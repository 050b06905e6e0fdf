// EXPERT_MAJOR, the sending warps: each token's row goes once to each of its ranks, to the first of
// its rows there, and a companion beside it to a slot. Once both have been written, a warp that does
// nothing else raises the slot's arrival word; its rank copies the row to the others from there.
//
// A sending warp tells the notifying one of its block how many of its tokens have been written, in
// `written` in shared memory: by lane 0 after all lanes' stores have ended, read with a fence.
// The fence towards all GPUs takes long: so many tokens share one, and senders need not wait for it.
#pragma once
#include "finish.cuh"
#include "layout.cuh"
#include "companion.cuh"
#include "rows.cuh"
#include "within.cuh"

// Where a token goes; lane i knows the ways i and i + 32.
struct SentToken {
  u64 ways[2];
  u32 targets[2];

  template <class Within>
  __device__ __forceinline__ void load(const DispatchParameters& p, Within within, u32 token) {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 i = round * 32 + lane_id();
      u64 at = (u64)token * p.top_k + i;
      ways[round] = i < p.top_k ? within.only(p.ways[at]) : NOWHERE;
      targets[round] = i < p.top_k ? p.targets[at] : NO_ROW;
    }
  }

  // This lane's places in a round; null leads nowhere.
  __device__ __forceinline__ char* row_place(const DispatchParameters& p, u32 round) const {
    return ways[round] == NOWHERE || targets[round] == NO_ROW
               ? nullptr
               : p.peers[way_rank(ways[round])] + p.rows_offset + targets[round] * p.row_bytes;
  }

  __device__ __forceinline__ char* companion_place(const DispatchParameters& p, u32 round) const {
    return ways[round] == NOWHERE ? nullptr
                                  : p.peers[way_rank(ways[round])] + p.companions_offset +
                                        way_slot(ways[round]) * p.companion_bytes;
  }
};

// The tokens of sending warp `warp` of a block.
__device__ __forceinline__ u32 tokens_of(const DispatchParameters& p, Chunk chunk, u32 warp) {
  u32 warps = (u32)p.push_warps;
  u32 tokens = chunk.end - chunk.begin;
  return tokens > warp ? (tokens - warp - 1) / warps + 1 : 0;
}

__device__ __forceinline__ u32 token_of(const DispatchParameters& p, Chunk chunk, u32 warp, u32 i) {
  return chunk.begin + warp + i * (u32)p.push_warps;
}

// How many tokens of this warp have been written; what all lanes stored for them has been.
__device__ __forceinline__ void say_written(volatile u32* written, u32 tokens) {
  fence_proxy();
  __syncwarp();
  if (lane_id() == 0) {
    __threadfence_block();
    *written = tokens;
  }
}

#if EP4J_TMA

// Sends the tokens of a warp. Of a token ways and companion are loaded three steps ahead, so that
// nothing waits for them, its companion is written and its row loaded two steps ahead.
template <class Within>
__device__ __forceinline__ void send_tokens(const DispatchParameters& p, Within within, Chunk chunk,
                                            Ring& ring, char* companions, volatile u32* written) {
  CompanionShape shape(p);
  u32 warp = warp_id();
  u32 count = tokens_of(p, chunk, warp);
  u32 row_bytes = (u32)p.row_bytes;
  u32 pieces = (row_bytes + ring.stage_bytes - 1) / ring.stage_bytes;
  SentToken tokens[STAGES];  // the last that have been prepared
  CompanionParts parts;
  u32 prepared = 0;  // tokens whose ways and companions are in registers
  u32 loaded = 0;    // pieces
  auto prepare = [&]() {
    tokens[0] = tokens[1];
    tokens[1] = tokens[2];
    if (prepared < count) {
      u32 token = token_of(p, chunk, warp, prepared);
      tokens[2].load(p, within, token);
      parts.load_token(p, token);
    }
    prepared++;
  };
  // Loads the next piece if there is one, and writes the companion of its token. A stage and a companion
  // are used again three pieces or tokens later: their stores have been read by then.
  auto load = [&]() {
    u32 i = loaded / pieces;
    u32 at = (loaded - i * pieces) * ring.stage_bytes;
    if (i >= count) {
      return;
    }
    u32 token = token_of(p, chunk, warp, i);
    if (at == 0) {
      parts.write(p, shape, token, companions + i % STAGES * p.companion_bytes);
      fence_proxy();
      __syncwarp();
      prepare();
    }
    ring.load(loaded++, p.x + (u64)token * row_bytes + at, min(ring.stage_bytes, row_bytes - at));
  };
  prepare();
  for (u32 i = 0; i + 1 < STAGES; i++) {
    load();
  }
  for (u32 step = 0; step < count * pieces; step++) {
    u32 i = step / pieces;
    u32 at = (step - i * pieces) * ring.stage_bytes;
    u32 bytes = min(ring.stage_bytes, row_bytes - at);
    // The newest three of those prepared are known; this one is among the older two.
    SentToken token = prepared - i == STAGES ? tokens[0] : tokens[1];
    const char* stage = ring.arrived(step);
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      char* place = token.row_place(p, round);
      if (place != nullptr) {
        bulk_store(place + at, stage, bytes);
      }
      place = token.companion_place(p, round);
      if (place != nullptr && at + bytes == row_bytes) {
        bulk_store(place, companions + i % STAGES * p.companion_bytes, (u32)p.companion_bytes);
      }
    }
    bulk_commit();
    bulk_wait_read<1>();
    __syncwarp();
    load();
    // Who waits for each piece tells its token at once; else all but the newest two have been written.
    if (p.eager) {
      bulk_wait<0>();
    } else {
      bulk_wait<2>();
    }
    u32 done = p.eager ? step + 1 : step > 1 ? step - 1 : 0;
    say_written(written, done / pieces);
  }
  bulk_wait<0>();
  say_written(written, count);
}

#else

template <class Within>
__device__ __forceinline__ void send_tokens(const DispatchParameters& p, Within within, Chunk chunk,
                                            Ring&, char* companion, volatile u32* written) {
  CompanionShape shape(p);
  u32 warp = warp_id();
  u32 count = tokens_of(p, chunk, warp);
  for (u32 i = 0; i < count; i++) {
    u32 token = token_of(p, chunk, warp, i);
    SentToken ways;
    CompanionParts parts;
    ways.load(p, within, token);
    parts.load_token(p, token);
    __syncwarp();
    parts.write(p, shape, token, companion);
    __syncwarp();
    const char* from = p.x + (u64)token * p.row_bytes;
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u64 rows = (u64)ways.row_place(p, round);
      u64 slots = (u64)ways.companion_place(p, round);
      for (u32 lane = 0; lane < 32; lane++) {
        char* row = (char*)__shfl_sync(0xffffffff, rows, lane);
        for (u32 at = lane_id() * 16; row != nullptr && at < p.row_bytes; at += 512) {
          store_row(row + at, load_row(from + at));
        }
        char* slot = (char*)__shfl_sync(0xffffffff, slots, lane);
        for (u32 at = lane_id() * 16; slot != nullptr && at < p.companion_bytes; at += 512) {
          store_row(slot + at, *(const uint4*)(companion + at));
        }
      }
    }
    say_written(written, i + 1);
  }
}

#endif

// Raises the words of a token with these ways; a lane.
template <class Within>
__device__ __forceinline__ void raise_words(const DispatchParameters& p, const Watch& w,
                                            Within within, const u64* ways, u32 token) {
  constexpr u32 AT_ONCE = 8;
  for (u32 first = 0; first < p.top_k; first += AT_ONCE) {
    u64 held[AT_ONCE];
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
      held[j] = first + j < p.top_k ? within.only(ways[first + j]) : NOWHERE;
    }
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
      if (held[j] != NOWHERE) {
        u64* words = (u64*)(p.peers[way_rank(held[j])] + p.arrivals_offset);
        store_relaxed_system(words + way_slot(held[j]), tagged(w.epoch, token));
      }
    }
  }
}

// The notifying warp of a sending block: lane i looks after sending warp i. Ends with the last token;
// senders wait for nobody, so it does.
template <class Within>
__device__ __forceinline__ void notify(const DispatchParameters& p, const Watch& w, Within within,
                                       Chunk chunk, const volatile u32* written) {
  bool looks = lane_id() < p.push_warps;
  u32 count = looks ? tokens_of(p, chunk, lane_id()) : 0;
  u32 raised = 0;
  while (__any_sync(0xffffffff, raised < count)) {
    u32 there = looks ? written[lane_id()] : 0;
    if (__any_sync(0xffffffff, there > raised)) {
      fence_proxy();
      __threadfence_system();
      for (; raised < there; raised++) {
        u32 token = token_of(p, chunk, lane_id(), raised);
        raise_words(p, w, within, p.ways + (u64)token * p.top_k, token);
      }
      __syncwarp();
    }
  }
}

// Counts the block as one that has read the counts and sent all it has; the last one tells the peers,
// who may then overwrite the counts. One warp of each block.
__device__ __forceinline__ void sent(const DispatchParameters& p, const Watch& w) {
  __syncwarp();
  bool last = false;
  if (lane_id() == 0) {
    __threadfence_system();
    last = atomicAdd(&w.control->senders, 1ull) == gridDim.x - 1;
    __threadfence_system();
  }
  if (__shfl_sync(0xffffffff, last, 0)) {
    for (u32 r = lane_id(); r < p.ranks; r += 32) {
      say_done(p, w, r);
    }
  }
}
