// Parameters of a combine (org.ep4j.cuda.struct.CombineParameters).
#pragma once
#include "common/kernel_lifecycle.cuh"
#include "common/row_matrix.cuh"
#include "common/rows.cuh"
#include "structs/combine_parameters.cuh"

constexpr u64 NO_ROUTE = ~0ull;

// Whether EXPERT_MAJOR rows are multiplied by their weights, p.slot_weights.
#ifndef EP4J_APPLY_WEIGHTS
#define EP4J_APPLY_WEIGHTS 0
#endif
constexpr bool APPLIES_WEIGHTS = EP4J_APPLY_WEIGHTS;

// The rows of a token and, if it applies them, their weights: shared memory of a warp
// (org.ep4j.cuda.engine.throughput.Stages).
constexpr u32 MAX_ROWS = 64;

__device__ __forceinline__ u32 pointers_of_warp(const CombineParameters& p) {
  return APPLIES_WEIGHTS ? MAX_ROWS + MAX_ROWS / 2 : MAX_ROWS;
}

// The weights of the rows that a warp lists at `rows`.
__device__ __forceinline__ float* weights_of(const char** rows) { return (float*)(rows + MAX_ROWS); }

// The words that show a combine which ranks of this node have entered.
struct CombineEntrySignals {
  const CombineParameters& p;

  __device__ __forceinline__ EntrySignals operator()() const {
    return EntrySignals{p.peers, p.rank, p.ranks, p.ready_offset, 0, 0, nullptr, 0, nullptr, nullptr};
  }
};

// Tells the ranks of this node that this rank has entered: its rows are ready.
__device__ __forceinline__ void publish_rows_ready(const CombineParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; blockIdx.x == 0 && r < p.ranks; r += blockDim.x) {
    if (p.peers[r] != nullptr) {
      store_release_system((u64*)(p.peers[r] + p.ready_offset) + p.rank, w.epoch);
    }
  }
}

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
