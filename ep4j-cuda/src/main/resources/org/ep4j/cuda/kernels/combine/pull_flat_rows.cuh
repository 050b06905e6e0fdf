// FLAT rows to pull: one row a rank, in ascending rank order.
#pragma once
#include "combine/pull_rows.cuh"

#if EP4J_TMA

struct FlatRows {
  static constexpr u32 AT_ONCE = 4;
  static constexpr Addition ADDITION = PLAIN;

  TokenRoutes of;

  __device__ __forceinline__ void prefetch(const CombineParameters& p, u32 token) { of.prefetch(p, token); }

  __device__ __forceinline__ u32 list(const CombineParameters& p, const ReadableRows& readable, u32 token,
                                      u32 element_bytes, const PullRing& ring) const {
    u32 found = list_biases(p, token, element_bytes, ring);
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 route = of.routes[round];
      bool valid = route != NO_ROUTE;
      u32 mask = __ballot_sync(0xffffffff, valid);
      if (valid) {
        ring.list[found + __popc(mask & ((1u << lane_id()) - 1))] =
            readable.rows[route >> 32] + (u64)(u32)route * p.hidden * element_bytes;
      }
      found += __popc(mask);
    }
    return found;
  }

  static __device__ __forceinline__ float weights_of(const CombineParameters& p,
                                                     const ReadableRows& readable, u64 i) {
    constexpr u32 LOADS = 8;  // in flight
    const u64* routes = p.routes + i / p.top_k * p.top_k;
    float sum = 0;
    for (u32 first = 0; first < p.top_k; first += LOADS) {
      float weights[LOADS];
      bool some[LOADS];
#pragma unroll
      for (u32 k = 0; k < LOADS; k++) {
        u64 route = first + k < p.top_k ? routes[first + k] : NO_ROUTE;
        some[k] = route != NO_ROUTE;
        weights[k] = !some[k] ? 0
                              : __ldcg(readable.weights[route >> 32] +
                                       (u64)(u32)route * p.top_k + i % p.top_k);
      }
#pragma unroll
      for (u32 k = 0; k < LOADS; k++) {
        sum = some[k] ? sum + weights[k] : sum;
      }
    }
    return sum;
  }
};

#endif
