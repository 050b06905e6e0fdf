// First and last step of a token's sums: biases and results. A lane has U vectors, 32 vectors
// apart; the first begins at column `first`. `row` is the byte offset of the token's columns.
#pragma once
#include "combine/combine_parameters.cuh"
#include "common/convert.cuh"

template <class T, u32 U>
__device__ __forceinline__ void add_biases(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                           u64 row, u32 first, u32 end) {
  constexpr u32 E = T::ELEMENTS;
#pragma unroll
  for (u32 u = 0; u < U; u++) {
    u32 at = first + u * 32 * E;
    if (at < end && p.bias0 != nullptr) {
      add_vector<T>(sum[u], load_row(p.bias0 + row + at * (16 / E)));
      if (p.bias1 != nullptr) {
        add_vector<T>(sum[u], load_row(p.bias1 + row + at * (16 / E)));
      }
    }
  }
}

template <class T, u32 U>
__device__ __forceinline__ void store_results(const CombineParameters& p,
                                              const float (*sum)[T::ELEMENTS], u64 row, u32 first,
                                              u32 end) {
  constexpr u32 E = T::ELEMENTS;
#pragma unroll
  for (u32 u = 0; u < U; u++) {
    u32 at = first + u * 32 * E;
    if (at < end) {
      store_row(p.out + row + at * (16 / E), round_vector<T>(sum[u]));
    }
  }
}
