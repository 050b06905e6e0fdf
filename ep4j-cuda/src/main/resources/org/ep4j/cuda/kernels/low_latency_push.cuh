// The warps of a low-latency combine that push rows home.
#pragma once
#include "low_latency_sums.cuh"
#include "low_latency_waits.cuh"

enum Travel { TRAVEL_BF16, TRAVEL_LOGFMT, TRAVEL_PARTIAL };

// A choice of one of this rank's tokens: what the dispatch did with it, and what the caller says now.
struct Choice {
  u32 holder = NOBODY;  // NOBODY: no row comes
  float weight = 0;
  bool kept = false;    // whether the caller wants it

  __device__ __forceinline__ Choice(const Operation& op, char* const* areas, u32 token, u32 k) {
    const LowLatencyParameters& p = op.p;
    if (k >= p.top_k) {
      return;
    }
    u64 at = (u64)token * p.top_k + k;
    u64 choice = p.choices[op.choice_slot(token, k)];
    i64 id = p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
    weight = p.weights[at];
    if (id != -1 && id != choice_expert(choice)) {
      op.watch.record->expected = (u64)choice_expert(choice);
      bad_routing(op.watch, STATE_NOT_AS_DISPATCHED, token, k, (u64)id);
      id = -1;
    }
    kept = id != -1;
    holder = choice_holder(choice);
    holder = holder < p.ranks && areas[holder] != nullptr ? holder : NOBODY;
  }
};

// The weights of this rank's tokens, to all holders: all threads of some blocks.
__device__ __forceinline__ void tell_weights(const Operation& op, char* const* areas, u32 block,
                                             u32 blocks) {
  const LowLatencyParameters& p = op.p;
  for (u32 i = block * blockDim.x + threadIdx.x; i < p.tokens * p.top_k; i += blocks * blockDim.x) {
    u32 token = i / (u32)p.top_k;
    u32 k = i - token * (u32)p.top_k;
    Choice choice(op, areas, token, k);
    if (choice.holder == NOBODY) {
      continue;
    }
    u32 bits = __float_as_uint(choice.weight);
    bits = !choice.kept ? NO_WEIGHT : bits == NO_WEIGHT ? 0x7fffffff : bits;
    store_relaxed_system(op.entries(areas[choice.holder], (u32)p.rank, token) + k,
                         numbered(op, bits));
  }
}

// Pushes the pieces of up to ROWS rows at a time: lane l of `lanes` knows a row and where it goes.
template <u32 ROWS>
__device__ __forceinline__ void push_pieces(u32 lanes, const char* row, char* home, u32 piece,
                                            u32 hidden) {
  while (lanes != 0) {
    uint4 held[ROWS][VECTORS];
    char* to[ROWS];
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      u32 lane = lanes != 0 ? __ffs(lanes) - 1 : 0;
      const char* from = (const char*)__shfl_sync(0xffffffff, (u64)row, lane);
      char* place = (char*)__shfl_sync(0xffffffff, (u64)home, lane);
      to[i] = lanes != 0 ? place : nullptr;
      if (lanes != 0) {
        load_piece(held[i], from, piece, hidden);
      }
      lanes &= lanes - 1;
    }
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      if (to[i] != nullptr) {
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
          u32 at = value_at(piece, v);
          if (at < hidden) {
            store_row(to[i] + at * 2, held[i][v]);
          }
        }
      }
    }
  }
}

// The same for rows that travel as LogFMT; bit l of the result says whether that of lane l is packed.
__device__ __forceinline__ u32 push_logfmt(u32 lanes, const char* row, char* home, u32 piece,
                                           u32 hidden) {
  u32 packed = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    u32 lane = __ffs(lanes) - 1;
    uint4 x[VECTORS];
    load_piece(x, (const char*)__shfl_sync(0xffffffff, (u64)row, lane), piece, hidden);
    char* to = (char*)__shfl_sync(0xffffffff, (u64)home, lane) + piece * PIECE * 2;
    packed |= (logfmt::store_piece(to, x, piece, hidden) ? 1u : 0u) << lane;
  }
  return packed;
}

// A warp's piece of one token's rows here, to the area of the token's source, one a choice.
template <Travel TRAVEL>
__device__ __forceinline__ void push_token(const Operation& op, char* area, const u32* places,
                                           u32 token, u32 choices, u32 piece) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  for (u32 first = 0; first < choices; first += 32) {
    u32 k = first + lane_id();
    u32 place = k < choices ? places[k] : NO_ENTRY;
    u32 lanes = __ballot_sync(0xffffffff, place != NO_ENTRY);
    const char* row = p.x + (u64)place * hidden * 2;
    char* home = op.row(area, op.choice_slot(token, k));
    u32 packed = 0;
    if constexpr (TRAVEL == TRAVEL_LOGFMT) {
      packed = push_logfmt(lanes, row, home, piece, hidden);
    } else {
      push_pieces<4>(lanes, row, home, piece, hidden);
    }
    __syncwarp();
    if (place != NO_ENTRY) {
      store_release_system(op.home_flags(area, token, piece) + k,
                           op.number | (packed >> lane_id() & 1 ? FLAG_BIT : 0));
    }
  }
}

// The same, one rounded sum of all.
__device__ __forceinline__ void push_partial(const Operation& op, char* area, const u32* places,
                                             u32 source, u32 token, u32 choices, u32 piece) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  Sums sums;
  sums.clear();
  bool any = false;
  for (u32 first = 0; first < choices; first += 32) {
    u32 k = first + lane_id();
    u32 place = k < choices ? places[k] : NO_ENTRY;
    any = any || __any_sync(0xffffffff, place != NO_ENTRY);
    u32 bits = NO_WEIGHT;
    bool told = place == NO_ENTRY ||
                await_value(op, op.entries(op.own, source, token) + k, source, PHASE_COUNTS, bits);
    // A sum that lacks something would be taken for a whole one.
    if (!__all_sync(0xffffffff, told)) {
      return;
    }
    u32 lanes = __ballot_sync(0xffffffff, bits != NO_WEIGHT);
    const char* row = p.x + (u64)place * hidden * 2;
    add_weighted(sums, lanes, row, __uint_as_float(bits), piece, hidden);
  }
  if (any) {
    sums.store(op.row(area, op.token_slot((u32)p.rank, token)), piece, hidden);
    __syncwarp();
    if (lane_id() == 0) {
      store_release_system(op.home_flags(area, token, piece) + p.rank, op.number);
    }
  }
}

template <Travel TRAVEL>
__device__ __forceinline__ void push_rows(const Operation& op, char* const* areas) {
  const LowLatencyParameters& p = op.p;
  u32 ranks = (u32)p.ranks;
  u32 pieces = pieces_of(p);
  u32 most = 0;
  for (u32 s = 0; s < ranks; s++) {
    most = max(most, p.batches[s] & 0xffff);
  }
  u32 step = gridDim.x * WARPS;
  for (u32 unit = warp_id() * gridDim.x + blockIdx.x; unit < most * ranks * pieces; unit += step) {
    u32 row = unit / pieces;
    u32 piece = unit - row * pieces;
    u32 token = row / ranks;
    u32 source = row - token * ranks + (u32)p.rank;
    source = source >= ranks ? source - ranks : source;
    u32 batch = p.batches[source];
    if (token >= (batch & 0xffff) || areas[source] == nullptr) {
      continue;
    }
    const u32* places = p.places + op.token_slot(source, token) * p.most_choices;
    if constexpr (TRAVEL == TRAVEL_PARTIAL) {
      push_partial(op, areas[source], places, source, token, batch >> 16, piece);
    } else {
      push_token<TRAVEL>(op, areas[source], places, token, batch >> 16, piece);
    }
  }
}
