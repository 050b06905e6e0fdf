// Weighted sums of pieces of rows by a warp.
#pragma once
#include "convert.cuh"
#include "logfmt.cuh"

// Sums of a lane for the vectors of a piece.
struct Sums {
  float of[VECTORS][8];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
#pragma unroll
      for (u32 i = 0; i < 8; i++) {
        of[v][i] = 0;
      }
    }
  }

  // Adds a vector of a row, multiplied by a weight.
  __device__ __forceinline__ void add(u32 v, uint4 x, float weight) {
    u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      of[v][2 * i] = __fmaf_rn(bf16_low(words[i]), weight, of[v][2 * i]);
      of[v][2 * i + 1] = __fmaf_rn(bf16_high(words[i]), weight, of[v][2 * i + 1]);
    }
  }

  // Stores the rounded sums to a row.
  __device__ __forceinline__ void store(char* row, u32 piece, u32 hidden) const {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 at = value_at(piece, v);
      if (at < hidden) {
        store_row(row + at * 2, round_vector<Bf16>(of[v]));
      }
    }
  }
};

// Adds rows to the sums: lane l of `lanes` knows a row's address and weight. Two rows at a time.
__device__ __forceinline__ void add_weighted(Sums& sums, u32 lanes, const char* row, float weight,
                                             u32 piece, u32 hidden) {
  while (lanes != 0) {
    u32 first = __ffs(lanes) - 1;
    lanes &= lanes - 1;
    bool two = lanes != 0;
    u32 second = two ? __ffs(lanes) - 1 : first;
    lanes &= lanes - 1;
    uint4 a[VECTORS];
    uint4 b[VECTORS];
    const char* row_a = (const char*)__shfl_sync(0xffffffff, (u64)row, first);
    const char* row_b = (const char*)__shfl_sync(0xffffffff, (u64)row, second);
    load_piece(a, row_a, piece, hidden);
    if (two) {
      load_piece(b, row_b, piece, hidden);
    }
    float weight_a = __shfl_sync(0xffffffff, weight, first);
    float weight_b = __shfl_sync(0xffffffff, weight, second);
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      sums.add(v, a[v], weight_a);
    }
    if (two) {
#pragma unroll
      for (u32 v = 0; v < VECTORS; v++) {
        sums.add(v, b[v], weight_b);
      }
    }
  }
}

// The same for pieces that travel as LogFMT, or not, as bit l of `packed` says.
__device__ __forceinline__ void add_logfmt(Sums& sums, u32 lanes, u32 packed, const char* row,
                                           float weight, u32 piece, u32 hidden) {
  u32 values = min(PIECE, hidden - piece * PIECE);
  for (; lanes != 0; lanes &= lanes - 1) {
    u32 lane = __ffs(lanes) - 1;
    const char* at = (const char*)__shfl_sync(0xffffffff, (u64)row, lane) + piece * PIECE * 2;
    float by = __shfl_sync(0xffffffff, weight, lane);
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 value = v * 256 + lane_id() * 8;
      if (value < values) {
        sums.add(v,
                 packed >> lane & 1 ? logfmt::load_vector(at, value, values)
                                    : load_row(at + value * 2),
                 by);
      }
    }
  }
}
