// Combine of EXPERT_MAJOR rows on GPUs without bulk loads: a warp sums a token's rows from memory,
// see token_sums.cuh.
#pragma once
#include "combine/token_sums.cuh"

#if !EP4J_TMA

// Rows of type T; pushed sums travel as H. `rows` lists rows from ranks before this one, then the
// rows of own experts, then rows from ranks after it.
template <class T, class H>
struct ExpertToken {
  using Element = T;
  static constexpr u32 VECTORS = 2;

  // Rows at a time, bounded by registers: from the return buffer, and of own experts.
  static constexpr u32 RETURN_ROWS = H::ELEMENTS == T::ELEMENTS ? 2 : 1;
  static constexpr u32 OWN_ROWS = 3;

  const char** rows;
  int before = 0;
  int own = 0;
  int after = 0;
  u32 own_flat = 0;  // FLAT row of the rows of own experts

  __device__ __forceinline__ explicit ExpertToken(const char** rows) : rows(rows) {}

  __device__ __forceinline__ bool find(const CombineParameters& p, const WaitContext& w,
                                       const ReturnLayout& return_layout, const TokenRoutes& of) {
    u32 below = (1u << lane_id()) - 1;
    u32 found = 0;
    own = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 route = of.routes[round];
      bool valid = route != NO_ROUTE;
      u32 local_mask = __ballot_sync(0xffffffff, valid && is_local_input(p, route));
      u32 mask = __ballot_sync(0xffffffff, valid) & ~local_mask;
      u32 at = found + own + __popc(mask & below);
      if (local_mask != 0) {
        u32 lane = __ffs(local_mask) - 1;
        own_flat = __shfl_sync(0xffffffff, (u32)route, lane);
        before = __shfl_sync(0xffffffff, (int)at, lane);
        own = list_input_rows(p, own_flat, 16 / T::ELEMENTS, rows + before,
                              weights_of(rows) + before);
        at += lane_id() > lane ? own : 0;
      }
      bool there = true;
      if (mask >> lane_id() & 1) {
        rows[at] = await_return_row(p, w, return_layout, route, is_sum_witness());
        there = rows[at] != nullptr;
      }
      if (!__all_sync(0xffffffff, there)) {
        return false;
      }
      found += __popc(mask);
    }
    before = own == 0 ? (int)found : before;
    after = (int)found - before;
    __syncwarp();
    return true;
  }

  __device__ __forceinline__ void add_to(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                         u32 first, u32 end) const {
    add_rows<T, H, VECTORS, RETURN_ROWS>(sum, MemoryRows{rows}, before, first, end);
    if (own > 0) {
      add_own(p, sum, first, end);
      add_rows<T, H, VECTORS, RETURN_ROWS>(sum, MemoryRows{rows + before + own}, after, first, end);
    }
  }

  // A choice has at most one weight.
  __device__ __forceinline__ float weight(const CombineParameters& p, u32 k) const {
    float sum = own == 0 ? 0 : input_weight(p, own_flat, k);
    for (int i = 0; i < before + after; i++) {
      const char* row = rows[i < before ? i : i + own];
      sum += __ldcg(row_weights(p, row, 16 / T::ELEMENTS) + k);
    }
    return sum;
  }

  static __device__ __forceinline__ void push(const CombineParameters& p, const WaitContext& w,
                                              const RowGroups<ReturnLayout>& groups, char*, u64*,
                                              const char** rows) {
    push_sums<T, H>(p, w, groups, rows);
  }

 private:
  __device__ __forceinline__ void add_own(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                          u32 first, u32 end) const {
    constexpr u32 E = T::ELEMENTS;
    float part[VECTORS][E] = {};
    add_input_rows<T, VECTORS, OWN_ROWS>(p, part, rows + before, weights_of(rows) + before, own,
                                         first, end);
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
      if constexpr (H::ELEMENTS == E) {
        add_vector<T>(sum[u], round_vector<T>(part[u]));
      } else {
#pragma unroll
        for (u32 e = 0; e < E; e++) {
          sum[u][e] += part[u][e];
        }
      }
    }
  }
};

#endif
