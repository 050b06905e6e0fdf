// EXPERT_MAJOR rows to pull: the row of each choice, times the weight of the choice.
//   FUSED      in ascending order of experts: so the sum of a token depends on nothing but its own
//              rows, experts and weights, not on which rank holds an expert, nor on how many ranks
//              there are
//   BY_RANKS   in ascending order of ranks and of local experts: the bits of a push (expert_combine.cu)
//
// The handle keeps what the source knows of its choices since the dispatch: where the row of each
// lies (entries), what orders it (kept_ids), and its weight (kept_weights).
#pragma once
#include "combine/pull_rows.cuh"

#if EP4J_TMA

// Lane i has the choices i and i + 32.
template <Addition ORDER>
struct ExpertRows {
  static constexpr u32 AT_ONCE = 2;
  static constexpr Addition ADDITION = ORDER;

  u64 entries[ROUNDS];
  i64 ids[ROUNDS];
  float weights[ROUNDS];

  __device__ __forceinline__ void prefetch(const CombineParameters& p, u32 token) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      bool some = k < p.top_k && token < p.tokens;
      u64 at = (u64)token * p.top_k + k;
      entries[round] = some ? p.entries[at] : NO_ROUTE;
      // Rows of a rank are in the order of its local experts.
      ids[round] = ORDER == BY_RANKS ? (i64)entries[round] : some ? p.kept_ids[at] : 0;
      weights[round] = some && p.kept_weights != nullptr ? p.kept_weights[at] : 1;
    }
  }

  __device__ __forceinline__ u32 list(const CombineParameters& p, const ReadableRows& readable, u32 token,
                                      u32 element_bytes, const PullRing& ring) const {
    // A bias is the only row of its holder.
    u32 biases = list_biases(p, token, element_bytes, ring, ORDER == BY_RANKS ? LAST_OF_HOLDER : 0);
    if (lane_id() < biases) {
      ring.weights[lane_id()] = 1;
    }
    u32 before[ROUNDS] = {};
    bool last[ROUNDS] = {true, true};
    u32 rows = 0;
    for (u32 k = 0; k < p.top_k; k++) {
      u64 entry = __shfl_sync(0xffffffff, k < 32 ? entries[0] : entries[1], k % 32);
      i64 id = __shfl_sync(0xffffffff, k < 32 ? ids[0] : ids[1], k % 32);
      if (entry != NO_ROUTE) {
        rows++;
#pragma unroll
        for (u32 round = 0; round < ROUNDS; round++) {
          bool equal = id == ids[round] && k < round * 32 + lane_id();
          before[round] += id < ids[round] || equal;
          last[round] = last[round] && !(id > ids[round] && entry >> 32 == entries[round] >> 32);
        }
      }
    }
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 entry = entries[round];
      if (entry != NO_ROUTE) {
        u32 at = biases + before[round];
        const char* row = readable.rows[entry >> 32] + (u64)(u32)entry * p.hidden * element_bytes;
        ring.list[at] = row + (ORDER == BY_RANKS && last[round] ? LAST_OF_HOLDER : 0);
        ring.weights[at] = weights[round];
      }
    }
    return biases + rows;
  }

  // A choice has at most one weight.
  static __device__ __forceinline__ float weights_of(const CombineParameters& p,
                                                     const ReadableRows& readable, u64 i) {
    u64 entry = p.entries[i];
    return entry == NO_ROUTE ? 0 : __ldcg(readable.weights[entry >> 32] + (u32)entry);
  }
};

#endif
