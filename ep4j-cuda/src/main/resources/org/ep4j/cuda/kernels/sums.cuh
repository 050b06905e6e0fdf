// Sums of rows by a warp: several rows and several vectors of a lane at a time, so that enough loads
// are on their way.
#pragma once
#include "convert.cuh"

// One vector of a row that may have travelled as float32 (H): E elements from column `at` on.
template <class T, class H>
struct HomeVector {
  uint4 low;
  uint4 high;

  __device__ __forceinline__ void load(const char* row, u32 at) {
    low = load_row(row + at * (16 / H::ELEMENTS));
    if constexpr (H::ELEMENTS != T::ELEMENTS) {
      high = load_row(row + at * (16 / H::ELEMENTS) + 16);
    }
  }

  __device__ __forceinline__ void add_to(float* sum) const {
    add_vector<H>(sum, low);
    if constexpr (H::ELEMENTS != T::ELEMENTS) {
      add_vector<H>(sum + H::ELEMENTS, high);
    }
  }
};


// Adds columns of rows, in their order, to the sums of a lane: U vectors, 32 vectors apart, of which
// the first begins at column `first`.
template <class T, class H, u32 U, u32 ROWS>
__device__ __forceinline__ void add_rows(float (*sum)[T::ELEMENTS], const char* const* rows, int count,
                                         u32 first, u32 columns) {
  constexpr u32 STEP = 32 * T::ELEMENTS;
  for (int i = 0; i < count; i += ROWS) {
    HomeVector<T, H> held[ROWS][U];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        if (i + (int)r < count && first + u * STEP < columns) {
          held[r][u].load(rows[i + r], first + u * STEP);
        }
      }
    }
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        if (i + (int)r < count && first + u * STEP < columns) {
          held[r][u].add_to(sum[u]);
        }
      }
    }
  }
}
