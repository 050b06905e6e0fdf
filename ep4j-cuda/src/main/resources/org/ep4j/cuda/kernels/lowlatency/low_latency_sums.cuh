// Weighted sums of pieces of rows by a warp.
#pragma once
#include "common/convert.cuh"
#include "lowlatency/logfmt.cuh"

// Loads N vectors of each lane from value `first` of a row on.
template <u32 N>
__device__ __forceinline__ void load_values(uint4 (&values)[N], const char* row, u32 first,
                                            u32 hidden) {
#pragma unroll
  for (u32 v = 0; v < N; v++) {
    u32 at = first + v * 256 + lane_id() * 8;
    values[v] = at < hidden ? load_row(row + at * 2) : make_uint4(0, 0, 0, 0);
  }
}

// Sums of a lane for N vectors.
template <u32 N>
struct Sums {
  float of[N][8];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 v = 0; v < N; v++) {
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

  // The rounded sums.
  __device__ __forceinline__ void round(uint4 (&values)[N]) const {
#pragma unroll
    for (u32 v = 0; v < N; v++) {
      values[v] = round_vector<Bf16>(of[v]);
    }
  }

  // Stores the rounded sums to a row, from value `first` on.
  __device__ __forceinline__ void store(char* row, u32 first, u32 hidden) const {
#pragma unroll
    for (u32 v = 0; v < N; v++) {
      u32 at = first + v * 256 + lane_id() * 8;
      if (at < hidden) {
        store_row(row + at * 2, round_vector<Bf16>(of[v]));
      }
    }
  }
};

// Adds rows to the sums, ROWS of them loaded at once: lane l of `lanes` has a row's address and
// weight.
template <u32 ROWS, u32 N>
__device__ __forceinline__ void add_weighted(Sums<N>& sums, u32 lanes, const char* row, float weight,
                                             u32 first, u32 hidden) {
  while (lanes != 0) {
    uint4 held[ROWS][N];
    float by[ROWS];
    u32 count = __popc(lanes);
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      u32 lane = i < count ? __ffs(lanes) - 1 : 0;
      lanes &= lanes - 1;
      const char* from = (const char*)__shfl_sync(0xffffffff, (u64)row, lane);
      by[i] = __shfl_sync(0xffffffff, weight, lane);
      if (i < count) {
        load_values(held[i], from, first, hidden);
      }
    }
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      if (i < count) {
#pragma unroll
        for (u32 v = 0; v < N; v++) {
          sums.add(v, held[i][v], by[i]);
        }
      }
    }
  }
}

// The same for a whole piece; bit l of `packed`: the row of lane l is LogFMT.
__device__ __forceinline__ void add_logfmt(Sums<VECTORS>& sums, u32 lanes, u32 packed,
                                           const char* row, float weight, u32 piece, u32 hidden) {
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
