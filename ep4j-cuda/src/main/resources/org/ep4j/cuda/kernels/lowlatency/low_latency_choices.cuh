// Choices of this rank's tokens, for a combine.
#pragma once
#include "lowlatency/low_latency_begin.cuh"

// The choice of a token at a place in the order of `order_ids`; each lane has a place. Not inlined: sums
// in the order of choices keep their registers.
__device__ __noinline__ u32 choice_by_expert(const LowLatencyParameters& p, u32 token, u32 place) {
  constexpr u32 ROUNDS_OF_LANES = 2;
  i64 ids[ROUNDS_OF_LANES];
  u32 places[ROUNDS_OF_LANES] = {};
#pragma unroll
  for (u32 round = 0; round < ROUNDS_OF_LANES; round++) {
    u32 k = round * 32 + lane_id();
    u64 at = (u64)token * p.top_k + k;
    ids[round] = k >= p.top_k       ? 0
                 : p.wide_order_ids ? ((const i64*)p.order_ids)[at]
                                    : (i64)((const int*)p.order_ids)[at];
  }
  for (u32 k = 0; k < p.top_k; k++) {
    i64 id = __shfl_sync(0xffffffff, k < 32 ? ids[0] : ids[1], k % 32);
#pragma unroll
    for (u32 round = 0; round < ROUNDS_OF_LANES; round++) {
      bool equal = id == ids[round] && k < round * 32 + lane_id();
      places[round] += id < ids[round] || equal;
    }
  }
  u32 choice = place;
  for (u32 k = 0; k < p.top_k; k++) {
    u32 its = __shfl_sync(0xffffffff, k < 32 ? places[0] : places[1], k % 32);
    choice = its == place ? k : choice;
  }
  return choice;
}

// The rank that holds the row of a choice if it is live, else NO_RANK.
__device__ __forceinline__ u32 holder_of(const Operation& op, char* const* areas, u64 choice) {
  u32 holder = choice_holder(choice);
  return holder < op.p.ranks && areas[holder] != nullptr ? holder : NO_RANK;
}

// A choice of one of this rank's tokens: the dispatch's record of it, and the caller's id and
// weight now.
struct Choice {
  u32 token;
  u32 k;
  u64 choice = pack_choice(NO_RANK, -1);
  i64 id = -1;
  float weight = 0;
  u32 holder;  // NO_RANK: no row arrives
  bool kept;   // whether the caller keeps it

  // By number: choices in token order.
  __device__ __forceinline__ Choice(const Operation& op, u32 number)
      : Choice(op, number / (u32)op.p.top_k, number % (u32)op.p.top_k) {}

  // Loads its fields, if there is such a choice.
  __device__ __forceinline__ Choice(const Operation& op, u32 token, u32 k) : token(token), k(k) {
    const LowLatencyParameters& p = op.p;
    if (token < p.tokens && k < p.top_k) {
      u64 at = (u64)token * p.top_k + k;
      choice = p.choices[op.choice_slot(token, k)];
      id = p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
      weight = p.weights[at];
    }
  }

  // Call before use, after resolve_peers().
  __device__ __forceinline__ void check(const Operation& op, char* const* areas) {
    if (id != -1 && id != choice_expert(choice)) {
      bad_routing(op.wait, STATE_NOT_AS_DISPATCHED, token, k, (u64)id, (u64)choice_expert(choice));
      id = -1;
    }
    kept = id != -1;
    holder = holder_of(op, areas, choice);
  }

  // The weight word for a holder that sums its rows; after check().
  __device__ __forceinline__ u32 encoded_weight() const {
    u32 bits = __float_as_uint(weight);
    return !kept ? NO_WEIGHT : bits == NO_WEIGHT ? 0x7fffffff : bits;
  }
};

// Publishes the weights of this rank's tokens to all holders; all threads. `choice` is the thread's
// first. MAPPED: all weights go to every internode rank, whose blocks import them without checking
// the holder; so stores fill whole lines on their way to the host. Each word carries its number, so
// none needs order.
__device__ __forceinline__ void publish_weights(const Operation& op, char* const* areas, Choice choice) {
  const LowLatencyParameters& p = op.p;
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  while (i < p.tokens * p.top_k) {
    choice.check(op, areas);
    if (choice.holder != NO_RANK && !op.is_internode(choice.holder)) {
      store_relaxed_system(
          op.entries(areas[choice.holder], (u32)p.rank, choice.token) + choice.k,
          tagged_word(op, choice.encoded_weight()));
    }
    for (u32 r = 0; MAPPED && r < p.ranks; r++) {
      if (op.is_internode(r) && areas[r] != nullptr) {
        store_relaxed_system(op.entries(areas[r], (u32)p.rank, choice.token) + choice.k,
                             tagged_word(op, choice.encoded_weight()));
      }
    }
    i += gridDim.x * blockDim.x;
    choice = Choice(op, i);
  }
}
