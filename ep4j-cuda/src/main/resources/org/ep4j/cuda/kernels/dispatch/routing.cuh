// Checked choices of a token. An invalid id is reported and treated as -1; kernels never trap.
#pragma once
#include "dispatch/dispatch_parameters.cuh"

// The expert of a choice, or -1; an invalid id is reported and treated as -1.
template <class Parameters>
__device__ __forceinline__ i64 checked_expert(const Parameters& p, const WaitContext& w, u32 token,
                                              u32 k) {
  i64 id = expert_of(p, (u64)token * p.top_k + k);
  if (id == -1) {
    return -1;
  }
  if (id < -1 || id >= (i64)p.experts) {
    bad_routing(w, STATE_NO_SUCH_EXPERT, token, k, (u64)id, p.experts);
    return -1;
  }
  for (u32 j = 0; j < k; j++) {
    if (expert_of(p, (u64)token * p.top_k + j) == id) {
      bad_routing(w, STATE_DUPLICATE, token, k, (u64)id, p.experts);
      return -1;
    }
  }
  return id;
}

// Up to eight choices of a token, loaded at once.
struct Choices {
  static constexpr u32 MAX = 8;
  i64 ids[MAX];

  // Nothing of a token behind `end`, or if a token has more choices.
  __device__ __forceinline__ void prefetch(const DispatchParameters& p, u32 token, u32 end) {
    bool loads = token < end && p.top_k <= MAX;
#pragma unroll
    for (u32 k = 0; k < MAX; k++) {
      ids[k] = loads && k < p.top_k ? expert_of(p, (u64)token * p.top_k + k) : -1;
    }
  }

  __device__ __forceinline__ bool valid(const DispatchParameters& p) const {
    bool good = p.top_k <= MAX;
#pragma unroll
    for (u32 k = 0; k < MAX; k++) {
      good = good && ids[k] >= -1 && ids[k] < (i64)p.experts;
#pragma unroll
      for (u32 j = 0; j < k; j++) {
        good = good && (ids[k] != ids[j] || ids[k] == -1);
      }
    }
    return good;
  }
};
