// Choices of this rank's tokens, as a combine asks for them.
#pragma once
#include "low_latency_begin.cuh"

// The rank that holds the row of a choice if it counts, else NOBODY.
__device__ __forceinline__ u32 holder_of(const Operation& op, char* const* areas, u64 choice) {
  u32 holder = choice_holder(choice);
  return holder < op.p.ranks && areas[holder] != nullptr ? holder : NO_RANK;
}

// A choice of one of this rank's tokens: what the dispatch did with it, and what the caller says now.
struct Choice {
  u32 token;
  u32 k;
  u64 choice = pack_choice(NO_RANK, -1);
  i64 id = -1;
  float weight = 0;
  u32 holder;  // NOBODY: no row comes
  bool kept;   // whether the caller wants it

  // Choices in their order.
  __device__ __forceinline__ Choice(const Operation& op, u32 number)
      : Choice(op, number / (u32)op.p.top_k, number % (u32)op.p.top_k) {}

  // Loads what is to be known of it, if there is such a choice.
  __device__ __forceinline__ Choice(const Operation& op, u32 token, u32 k) : token(token), k(k) {
    const LowLatencyParameters& p = op.p;
    if (token < p.tokens && k < p.top_k) {
      u64 at = (u64)token * p.top_k + k;
      choice = p.choices[op.choice_slot(token, k)];
      id = p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
      weight = p.weights[at];
    }
  }

  // Before it is used, once this rank has looked at the others.
  __device__ __forceinline__ void check(const Operation& op, char* const* areas) {
    if (id != -1 && id != choice_expert(choice)) {
      op.wait.record->expected = (u64)choice_expert(choice);
      bad_routing(op.wait, STATE_NOT_AS_DISPATCHED, token, k, (u64)id);
      id = -1;
    }
    kept = id != -1;
    holder = holder_of(op, areas, choice);
  }

  // What a holder that adds up its rows is told; then.
  __device__ __forceinline__ u32 encoded_weight() const {
    u32 bits = __float_as_uint(weight);
    return !kept ? NO_WEIGHT : bits == NO_WEIGHT ? 0x7fffffff : bits;
  }
};

// The weights of this rank's tokens, to all holders: all threads. `choice` is the thread's first. Mapped:
// all of them to every far rank, whose blocks bring them without a look at what is held there; that way
// they fill lines on their way to the host. Each word carries its number, so none is ordered.
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
