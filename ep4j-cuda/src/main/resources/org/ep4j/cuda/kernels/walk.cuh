// The tokens of a warp, one after the other, as far as they lead anywhere.
#pragma once
#include "dispatch_parameters.cuh"

// From `token` to `end` in steps of `stride`. Lane i knows the ways i and i + 32 of the token.
struct TokenWalk {
  const DispatchParameters& p;
  u32 token;
  u32 end;
  u32 stride;
  u64 ways[2] = {NOWHERE, NOWHERE};
  bool begun = false;

  __device__ __forceinline__ TokenWalk(const DispatchParameters& p, u32 token, u32 end, u32 stride)
      : p(p), token(token), end(end), stride(stride) {}

  __device__ __forceinline__ u64 way(u32 i) const {
    return i < p.top_k ? p.ways[(u64)token * p.top_k + i] : NOWHERE;
  }

  // All lanes; false at the end.
  __device__ __forceinline__ bool next() {
    for (;;) {
      if (begun) {
        token += stride;
      }
      begun = true;
      if (token >= end) {
        return false;
      }
      ways[0] = way(lane_id());
      ways[1] = way(lane_id() + 32);
      if (__any_sync(0xffffffff, ways[0] != NOWHERE || ways[1] != NOWHERE)) {
        return true;
      }
    }
  }

  __device__ __forceinline__ const char* row() const { return p.x + (u64)token * p.row_bytes; }

  __device__ __forceinline__ u32 rounds() const { return p.top_k > 32 ? 2 : 1; }
};
