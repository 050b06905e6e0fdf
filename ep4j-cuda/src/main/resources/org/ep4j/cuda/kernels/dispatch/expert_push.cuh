// EXPERT_MAJOR, the sending warps. Each token's row goes once to each of its ranks, to the first of
// its rows there, and its metadata to a slot. Once both have been written, the notifying warp of
// the block raises the slot's arrival word; the receiving rank copies the row to its other rows.
//
// `written` (shared memory): tokens of each sending warp that have been written. Writer: lane 0 of
// the sending warp, after all lanes' stores have completed. Reader: the notifying warp, behind a
// fence. A fence towards all GPUs takes long: many tokens share one, and senders do not wait for
// it.
#pragma once
#include "dispatch/finish.cuh"
#include "dispatch/layout.cuh"
#include "dispatch/row_metadata.cuh"
#include "common/rows.cuh"
#include "dispatch/dispatch_parameters.cuh"

// Destinations of a token; lane i holds the routes i and i + 32.
struct SentToken {
  u64 routes[2];
  u32 targets[2];

  template <class Filter>
  __device__ __forceinline__ void load(const DispatchParameters& p, Filter filter, u32 token) {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 i = round * 32 + lane_id();
      u64 at = (u64)token * p.top_k + i;
      routes[round] = i < p.top_k ? filter.select(p.routes[at]) : NO_ROUTE;
      targets[round] = i < p.top_k ? p.targets[at] : NO_ROW;
    }
  }

  // This lane's destinations in a round; null: none.
  __device__ __forceinline__ char* row_destination(const DispatchParameters& p, u32 round) const {
    return routes[round] == NO_ROUTE || targets[round] == NO_ROW
               ? nullptr
               : p.peers[route_rank(routes[round])] + p.rows_offset + targets[round] * p.row_bytes;
  }

  __device__ __forceinline__ char* metadata_destination(const DispatchParameters& p, u32 round) const {
    return routes[round] == NO_ROUTE ? nullptr
                                  : p.peers[route_rank(routes[round])] + p.metadata_offset +
                                        route_slot(routes[round]) * p.metadata_bytes;
  }
};

// The tokens of sending warp `warp` of a block.
__device__ __forceinline__ u32 tokens_of(const DispatchParameters& p, TokenRange token_range, u32 warp) {
  u32 warps = (u32)p.push_warps;
  u32 tokens = token_range.end - token_range.begin;
  return tokens > warp ? (tokens - warp - 1) / warps + 1 : 0;
}

__device__ __forceinline__ u32 token_of(const DispatchParameters& p, TokenRange token_range, u32 warp, u32 i) {
  return token_range.begin + warp + i * (u32)p.push_warps;
}

// Publishes how many tokens of this warp have been written; the stores of all lanes have completed.
__device__ __forceinline__ void publish_written(volatile u32* written, u32 tokens) {
  fence_proxy();
  __syncwarp();
  if (is_first_lane()) {
    __threadfence_block();
    *written = tokens;
  }
}

#if EP4J_TMA

// Sends the tokens of a warp. Routes and metadata of a token are loaded three steps ahead, so that
// no step waits for them; its metadata is written to shared memory and its row loaded two steps
// ahead. Returns the number of loads.
template <class Filter>
__device__ __forceinline__ u32 send_tokens(const DispatchParameters& p, Filter filter, TokenRange token_range,
                                           Ring& ring, char* metadata_buffers, volatile u32* written) {
  RowMetadataLayout shape(p);
  u32 warp = warp_id();
  u32 count = tokens_of(p, token_range, warp);
  u32 row_bytes = (u32)p.row_bytes;
  u32 pieces = (row_bytes + ring.stage_bytes - 1) / ring.stage_bytes;
  SentToken tokens[STAGES];  // the newest prepared tokens
  RowMetadata parts;
  u32 prepared = 0;  // tokens whose routes and metadata are in registers
  u32 loaded = 0;    // number of pieces
  auto prepare = [&]() {
    tokens[0] = tokens[1];
    tokens[1] = tokens[2];
    if (prepared < count) {
      u32 token = token_of(p, token_range, warp, prepared);
      tokens[2].load(p, filter, token);
      parts.load_token(p, token);
    }
    prepared++;
  };
  // Loads the next piece, if any, and writes the metadata of its token. Stage and metadata buffer
  // are reused three pieces or tokens later: by then their stores have been read.
  auto load = [&]() {
    u32 i = loaded / pieces;
    u32 at = (loaded - i * pieces) * ring.stage_bytes;
    if (i >= count) {
      return;
    }
    u32 token = token_of(p, token_range, warp, i);
    if (at == 0) {
      parts.write(p, shape, token, metadata_buffers + i % STAGES * p.metadata_bytes);
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
    // The newest three prepared tokens are kept; this one is among the older two.
    SentToken token = prepared - i == STAGES ? tokens[0] : tokens[1];
    const char* stage = ring.arrived(step);
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      char* destination = token.row_destination(p, round);
      if (destination != nullptr) {
        bulk_store(destination + at, stage, bytes);
      }
      destination = token.metadata_destination(p, round);
      if (destination != nullptr && at + bytes == row_bytes) {
        bulk_store(destination, metadata_buffers + i % STAGES * p.metadata_bytes, (u32)p.metadata_bytes);
      }
    }
    bulk_commit();
    bulk_wait_read<1>();
    __syncwarp();
    load();
    // Eager: wait for each piece and publish its token at once. Else: all but the newest two pieces
    // have been written.
    if (p.eager) {
      bulk_wait<0>();
    } else {
      bulk_wait<2>();
    }
    u32 done = p.eager ? step + 1 : step > 1 ? step - 1 : 0;
    publish_written(written, done / pieces);
  }
  bulk_wait<0>();
  publish_written(written, count);
  return loaded;
}

#else

template <class Filter>
__device__ __forceinline__ u32 send_tokens(const DispatchParameters& p, Filter filter, TokenRange token_range,
                                           Ring&, char* metadata, volatile u32* written) {
  RowMetadataLayout shape(p);
  u32 warp = warp_id();
  u32 count = tokens_of(p, token_range, warp);
  for (u32 i = 0; i < count; i++) {
    u32 token = token_of(p, token_range, warp, i);
    SentToken routes;
    RowMetadata parts;
    routes.load(p, filter, token);
    parts.load_token(p, token);
    __syncwarp();
    parts.write(p, shape, token, metadata);
    __syncwarp();
    const char* from = p.x + (u64)token * p.row_bytes;
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u64 rows = (u64)routes.row_destination(p, round);
      u64 slots = (u64)routes.metadata_destination(p, round);
      for (u32 lane = 0; lane < 32; lane++) {
        char* row = (char*)__shfl_sync(0xffffffff, rows, lane);
        for (u32 at = lane_id() * 16; row != nullptr && at < p.row_bytes; at += 512) {
          store_row(row + at, load_row(from + at));
        }
        char* slot = (char*)__shfl_sync(0xffffffff, slots, lane);
        for (u32 at = lane_id() * 16; slot != nullptr && at < p.metadata_bytes; at += 512) {
          store_row(slot + at, *(const uint4*)(metadata + at));
        }
      }
    }
    publish_written(written, i + 1);
  }
  return 0;
}

#endif

// Raises the arrival words of a token with these routes; one lane.
template <class Filter>
__device__ __forceinline__ void raise_words(const DispatchParameters& p, const WaitContext& w,
                                            Filter filter, const u64* routes, u32 token) {
  constexpr u32 UNROLL = 8;
  for (u32 first = 0; first < p.top_k; first += UNROLL) {
    u64 held[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      held[j] = first + j < p.top_k ? filter.select(routes[first + j]) : NO_ROUTE;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      if (held[j] != NO_ROUTE) {
        u64* words = (u64*)(p.peers[route_rank(held[j])] + p.arrivals_offset);
        store_relaxed_system(words + route_slot(held[j]), tagged(w.epoch, token));
      }
    }
  }
}

// The notifying warp of a sending block: lane i serves sending warp i. Ends after the last token,
// because senders wait for no other warp.
template <class Filter>
__device__ __forceinline__ void notify(const DispatchParameters& p, const WaitContext& w, Filter filter,
                                       TokenRange token_range, const volatile u32* written) {
  bool polls = lane_id() < p.push_warps;
  u32 count = polls ? tokens_of(p, token_range, lane_id()) : 0;
  u32 raised = 0;
  while (__any_sync(0xffffffff, raised < count)) {
    u32 there = polls ? written[lane_id()] : 0;
    if (__any_sync(0xffffffff, there > raised)) {
      fence_proxy();
      __threadfence_system();
      for (; raised < there; raised++) {
        u32 token = token_of(p, token_range, lane_id(), raised);
        raise_words(p, w, filter, p.routes + (u64)token * p.top_k, token);
      }
      __syncwarp();
    }
  }
}

// Counts the block as done: it has read the counts and sent all its rows. The last block publishes
// `done` to the peers, which may then overwrite the counts. One warp of each block.
__device__ __forceinline__ void complete_send(const DispatchParameters& p, const WaitContext& w) {
  __syncwarp();
  bool last = false;
  if (is_first_lane()) {
    __threadfence_system();
    last = atomicAdd(&w.control->senders, 1ull) == gridDim.x - 1;
    __threadfence_system();
  }
  if (__shfl_sync(0xffffffff, last, 0)) {
    for (u32 r = lane_id(); r < p.ranks; r += 32) {
      publish_done(p, w, r);
    }
  }
}
