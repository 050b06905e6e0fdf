// Sums of rows by a warp: several rows and several vectors of a lane at a time, so that enough
// loads are in flight; before them the biases, after them the stores of results.
#pragma once
#include "combine/combine_parameters.cuh"
#include "common/convert.cuh"

// Rows in memory.
struct MemoryRows {
  const char* const* rows;

  __device__ __forceinline__ uint4 load(int i, u32 at) const { return load_row(rows[i] + at); }
};

// Rows, or the same piece of each row, in shared memory.
struct StagedRows {
  const char* first;
  u32 bytes;  // of each row

  __device__ __forceinline__ uint4 load(int i, u32 at) const {
    return *(const uint4*)(first + (u32)i * bytes + at);
  }
};

// One vector of a row that may have travelled as float32 (H): E elements from column `at` on.
template <class T, class H>
struct ReturnedVector {
  uint4 low;
  uint4 high;

  template <class Rows>
  __device__ __forceinline__ void load(const Rows& rows, int i, u32 at) {
    low = rows.load(i, at * (16 / H::ELEMENTS));
    if constexpr (H::ELEMENTS != T::ELEMENTS) {
      high = rows.load(i, at * (16 / H::ELEMENTS) + 16);
    }
  }

  __device__ __forceinline__ void add_to(float* sum) const {
    add_vector<H>(sum, low);
    if constexpr (H::ELEMENTS != T::ELEMENTS) {
      add_vector<H>(sum + H::ELEMENTS, high);
    }
  }
};


// Adds columns of rows, in row order, to the sums of a lane: U vectors, 32 vectors apart; the first
// begins at column `first`.
template <class T, class H, u32 U, u32 ROWS, class Rows>
__device__ __forceinline__ void add_rows(float (*sum)[T::ELEMENTS], const Rows& rows, int count,
                                         u32 first, u32 columns) {
  constexpr u32 STEP = 32 * T::ELEMENTS;
#pragma unroll 1
  for (int i = 0; i < count; i += ROWS) {
    ReturnedVector<T, H> held[ROWS][U];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        if (i + (int)r < count && first + u * STEP < columns) {
          held[r][u].load(rows, i + (int)r, first + u * STEP);
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

// First and last step of a token's sums: biases and results. A lane has U vectors, 32 vectors
// apart; the first begins at column `first`. `row` is the byte offset of the token's columns.
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
