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

  __device__ __forceinline__ Choice(const Operation& op, const u32* there, u32 token, u32 k) {
    const LowLatencyParameters& p = op.p;
    if (k >= p.top_k) {
      return;
    }
    u32 choice = p.choices[op.choice_slot(token, k)];
    u64 at = (u64)token * p.top_k + k;
    i64 id = p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
    i64 dispatched = choice == NO_ENTRY ? -1 : (i64)(choice >> 1);
    if (id != -1 && id != dispatched) {
      op.watch.record->expected = (u64)dispatched;
      bad_routing(op.watch, STATE_NOT_AS_DISPATCHED, token, k, (u64)id);
      id = -1;
    }
    kept = id != -1;
    weight = p.weights[at];
    if (choice != NO_ENTRY && choice & 1) {
      u32 rank = p.placement[dispatched] >> 16;
      holder = rank < p.ranks && there[rank] ? rank : NOBODY;
    }
  }
};

// The weights of this rank's tokens, to all holders: all threads of some blocks.
__device__ __forceinline__ void tell_weights(const Operation& op, const u32* there, u32 block,
                                             u32 blocks) {
  const LowLatencyParameters& p = op.p;
  for (u32 i = block * blockDim.x + threadIdx.x; i < p.tokens * p.top_k; i += blocks * blockDim.x) {
    u32 token = i / (u32)p.top_k;
    u32 k = i - token * (u32)p.top_k;
    Choice choice(op, there, token, k);
    if (choice.holder == NOBODY) {
      continue;
    }
    u32 bits = __float_as_uint(choice.weight);
    bits = !choice.kept ? NO_WEIGHT : bits == NO_WEIGHT ? 0x7fffffff : bits;
    store_relaxed_system(op.entries(choice.holder, (u32)p.rank, token) + k, numbered(op, bits));
  }
}

// A warp's piece of one token's rows here, to the source of the token.
template <Travel TRAVEL>
__device__ __forceinline__ void push_token(const Operation& op, u32 source, u32 token, u32 choices,
                                           u32 piece) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  const u32* places = p.places + op.token_slot(source, token) * p.most_choices;
  Sums sums;
  if (TRAVEL == TRAVEL_PARTIAL) {
    sums.clear();
  }
  bool any = false;
  for (u32 first = 0; first < choices; first += 32) {
    u32 k = first + lane_id();
    u32 place = k < choices ? places[k] : NO_ENTRY;
    u32 lanes = __ballot_sync(0xffffffff, place != NO_ENTRY);
    any = any || lanes != 0;
    const char* row = p.x + (u64)place * hidden * 2;
    if (TRAVEL == TRAVEL_PARTIAL) {
      u32 bits = NO_WEIGHT;
      if (place != NO_ENTRY &&
          !await_value(op, op.entries((u32)p.rank, source, token) + k, source, PHASE_COUNTS, bits)) {
        bits = NO_WEIGHT;
      }
      lanes = __ballot_sync(0xffffffff, bits != NO_WEIGHT);
      add_weighted(sums, lanes, row, __uint_as_float(bits), piece, hidden);
      continue;
    }
    u32 packed = 0;
    for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
      u32 lane = __ffs(rest) - 1;
      uint4 x[VECTORS];
      load_piece(x, (const char*)__shfl_sync(0xffffffff, (u64)row, lane), piece, hidden);
      char* to = op.row(source, op.choice_slot(token, first + lane)) + piece * PIECE * 2;
      if (TRAVEL == TRAVEL_LOGFMT) {
        packed |= (logfmt::store_piece(to, x, piece, hidden) ? 1u : 0u) << lane;
      } else {
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
          if (value_at(piece, v) < hidden) {
            store_row(to + v * 512 + lane_id() * 16, x[v]);
          }
        }
      }
    }
    __syncwarp();
    if (place != NO_ENTRY) {
      store_release_system(op.home_flags(source, token, piece) + k,
                           op.number | (packed >> lane_id() & 1 ? FLAG_BIT : 0));
    }
  }
  if (TRAVEL == TRAVEL_PARTIAL && any) {
    sums.store(op.row(source, op.token_slot((u32)p.rank, token)), piece, hidden);
    __syncwarp();
    if (lane_id() == 0) {
      store_release_system(op.home_flags(source, token, piece) + p.rank, op.number);
    }
  }
}

template <Travel TRAVEL>
__device__ __forceinline__ void push_rows(const Operation& op, const u32* there) {
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
    if (token < (batch & 0xffff) && there[source]) {
      push_token<TRAVEL>(op, source, token, batch >> 16, piece);
    }
  }
}
