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

// Rows that a warp loads at once.
constexpr u32 ROWS_AT_ONCE = 3;

// Adds rows to the sums: lane l of `lanes` knows a row's address and weight.
__device__ __forceinline__ void add_weighted(Sums& sums, u32 lanes, const char* row, float weight,
                                             u32 piece, u32 hidden) {
  while (lanes != 0) {
    uint4 held[ROWS_AT_ONCE][VECTORS];
    float by[ROWS_AT_ONCE];
    u32 count = __popc(lanes);
#pragma unroll
    for (u32 i = 0; i < ROWS_AT_ONCE; i++) {
      u32 lane = i < count ? __ffs(lanes) - 1 : 0;
      lanes &= lanes - 1;
      const char* from = (const char*)__shfl_sync(0xffffffff, (u64)row, lane);
      by[i] = __shfl_sync(0xffffffff, weight, lane);
      if (i < count) {
        load_piece(held[i], from, piece, hidden);
      }
    }
#pragma unroll
    for (u32 i = 0; i < ROWS_AT_ONCE; i++) {
      if (i < count) {
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
          sums.add(v, held[i][v], by[i]);
        }
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
