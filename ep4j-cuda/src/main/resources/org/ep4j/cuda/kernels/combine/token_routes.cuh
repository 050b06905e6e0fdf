// The routes of the token that a warp of a combine takes next.
#pragma once
#include "combine/combine_parameters.cuh"
#include "common/rows.cuh"

// The routes of a token, those of the choices i and i + 32 in lane i. A warp prefetches them while
// it works on the previous token.
struct TokenRoutes {
  u64 routes[ROUNDS];

  __device__ __forceinline__ void prefetch(const CombineParameters& p, u32 token) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      routes[round] = k < p.top_k && token < p.tokens ? p.routes[(u64)token * p.top_k + k] : NO_ROUTE;
    }
  }
};
