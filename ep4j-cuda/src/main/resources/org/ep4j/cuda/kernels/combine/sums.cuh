// Sums of rows by a warp: several rows and several vectors of a lane at a time, so that enough
// loads are in flight; before them the biases, after them the stores of results.
#pragma once
#include "combine/combine_parameters.cuh"
#include "common/convert.cuh"

template <class T>
__device__ __forceinline__ void unpack_vector(float* values, uint4 v) {
  u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    T::unpack(words[i], values[2 * i], values[2 * i + 1]);
  }
}

template <>
__device__ __forceinline__ void unpack_vector<Fp32>(float* values, uint4 v) {
  values[0] = __uint_as_float(v.x);
  values[1] = __uint_as_float(v.y);
  values[2] = __uint_as_float(v.z);
  values[3] = __uint_as_float(v.w);
}

// Adds products that are rounded before they are added: never a fused multiply-add.
template <class T>
__device__ __forceinline__ void add_products(float* sum, uint4 v, float weight) {
  float values[T::ELEMENTS];
  unpack_vector<T>(values, v);
#pragma unroll
  for (u32 i = 0; i < T::ELEMENTS; i++) {
    sum[i] = __fadd_rn(sum[i], __fmul_rn(values[i], weight));
  }
}

// Adds products by fused multiply-adds.
template <class T>
__device__ __forceinline__ void add_fused(float* sum, uint4 v, float weight) {
  float values[T::ELEMENTS];
  unpack_vector<T>(values, v);
#pragma unroll
  for (u32 i = 0; i < T::ELEMENTS; i++) {
    sum[i] = __fmaf_rn(values[i], weight, sum[i]);
  }
}

// Rows in memory.
struct MemoryRows {
  const char* const* rows;

  __device__ __forceinline__ uint4 load(int i, u32 at) const { return load_row(rows[i] + at); }

  // Adds a vector of row i.
  template <class Vector>
  __device__ __forceinline__ void add(float* sum, int, const Vector& vector) const {
    vector.add_to(sum);
  }
};

// Rows in memory that are multiplied by their weights.
struct WeightedRows {
  const char* const* rows;
  const float* weights;

  __device__ __forceinline__ uint4 load(int i, u32 at) const { return load_row(rows[i] + at); }

  template <class Vector>
  __device__ __forceinline__ void add(float* sum, int i, const Vector& vector) const {
    vector.add_products_to(sum, weights[i]);
  }
};

// Rows, or the same piece of each row, in shared memory.
struct StagedRows {
  const char* first;
  u32 bytes;  // of each row

  __device__ __forceinline__ uint4 load(int i, u32 at) const {
    return *(const uint4*)(first + (u32)i * bytes + at);
  }

  template <class Vector>
  __device__ __forceinline__ void add(float* sum, int, const Vector& vector) const {
    vector.add_to(sum);
  }
};

// The same, added by fused multiply-adds.
struct FusedRows {
  StagedRows staged;
  const float* weights;

  __device__ __forceinline__ uint4 load(int i, u32 at) const { return staged.load(i, at); }

  template <class Vector>
  __device__ __forceinline__ void add(float* sum, int i, const Vector& vector) const {
    vector.add_fused_to(sum, weights[i]);
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

  // A sum, rounded as it travels.
  __device__ __forceinline__ void round(const float* sum) {
    if constexpr (H::ELEMENTS == T::ELEMENTS) {
      low = round_vector<T>(sum);
    } else {
      low = round_vector<Fp32>(sum);
      high = round_vector<Fp32>(sum + H::ELEMENTS);
    }
  }

  __device__ __forceinline__ void store(char* to) const {
    store_row(to, low);
    if constexpr (H::ELEMENTS != T::ELEMENTS) {
      store_row(to + 16, high);
    }
  }

  // Rows of experts: they have not travelled.
  __device__ __forceinline__ void add_products_to(float* sum, float weight) const {
    add_products<T>(sum, low, weight);
  }

  __device__ __forceinline__ void add_fused_to(float* sum, float weight) const {
    add_fused<T>(sum, low, weight);
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
          rows.add(sum[u], i + (int)r, held[r][u]);
        }
      }
    }
  }
}

// Adds columns of rows of own experts, as add_rows does, times their weights if weights are applied.
template <class T, u32 U, u32 ROWS>
__device__ __forceinline__ void add_input_rows(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                               const char* const* rows, const float* weights,
                                               int count, u32 first, u32 columns) {
  if (APPLIES_WEIGHTS) {
    add_rows<T, T, U, ROWS>(sum, WeightedRows{rows, weights}, count, first, columns);
  } else {
    add_rows<T, T, U, ROWS>(sum, MemoryRows{rows}, count, first, columns);
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
