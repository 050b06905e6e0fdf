// Formats of dispatched BF16 rows: BF16, FP8 or NVFP4. The arithmetic equals that of
// org.ep4j.engine.host.kernel.NvFp4 and, in fp8.cuh, Fp8, operation by operation; nothing may be
// contracted.
//
// A warp holds a piece of a row: vector v of lane l has the 8 values from 256 v + 8 l on. A
// travelling row is its values, then its scales.
#pragma once
#include "common/fp8.cuh"
#include "lowlatency/ll_packets.cuh"

// First value of this lane's vector v, counted from the start of the row.
__device__ __forceinline__ u32 value_at(u32 piece, u32 v) {
  return piece * PIECE + v * 256 + lane_id() * 8;
}

__device__ __forceinline__ void load_piece(uint4 (&values)[VECTORS], const char* row, u32 piece,
                                           u32 hidden) {
#pragma unroll
  for (u32 v = 0; v < VECTORS; v++) {
    u32 at = value_at(piece, v);
    values[v] = at < hidden ? load_row(row + at * 2) : make_uint4(0, 0, 0, 0);
  }
}

// E2M1, to nearest even, saturating at 6; NaN becomes +6.
__device__ __forceinline__ u32 to_e2m1(float value) {
  if (value != value) {
    return 7;
  }
  float magnitude = fminf(fabsf(value), 6.0f);
  u32 exponent = max(__float_as_uint(magnitude) & 0x7f800000, 127u << 23);
  u32 big = exponent + (22u << 23);
  u32 halves = __float_as_uint(__fadd_rn(magnitude, __uint_as_float(big))) - big;
  return (__float_as_uint(value) >> 28 & 8) | (((exponent - (127u << 23)) >> 22) + halves);
}

struct Bf16Rows {
  static constexpr u32 VALUE_BITS = 16;
  static constexpr u32 VECTORS_OF_16 = PIECE * VALUE_BITS / 8 / 512;
  typedef uint4 Vector;
  Vector values[VECTORS];

  static __device__ __forceinline__ u32 scale_words(const LowLatencyParameters&) { return 0; }

  // Lane i: word i of the piece's scales.
  __device__ __forceinline__ u32 scale_word() const { return 0; }

  __device__ __forceinline__ void encode(const uint4 (&x)[VECTORS], const LowLatencyParameters&) {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      values[v] = x[v];
    }
  }

  __device__ __forceinline__ void store(char* row, u32 piece, const LowLatencyParameters& p) const {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 at = value_at(piece, v);
      if (at < p.hidden) {
        store_row(row + at * 2, values[v]);
      }
    }
  }
};

struct Fp8Rows {
  static constexpr u32 VALUE_BITS = 8;
  static constexpr u32 VECTORS_OF_16 = PIECE * VALUE_BITS / 8 / 512;
  typedef uint2 Vector;
  Vector values[VECTORS];
  u32 scale;  // lane i < scale_words: word i of the piece's scales

  static __device__ __forceinline__ u32 scale_words(const LowLatencyParameters& p) {
    return p.scale_kind == SCALE_UE8M0 ? 2 : 8;
  }

  __device__ __forceinline__ u32 scale_word() const { return scale; }

  __device__ __forceinline__ void encode(const uint4 (&x)[VECTORS], const LowLatencyParameters& p) {
    u32 mine[VECTORS];
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      float amax = fp8_amax(x[v]);
      float by = fp8_multiplier(p.scale_kind, amax);
      mine[v] = fp8_scale_bits(p.scale_kind, amax);
      values[v] = to_fp8(x[v], by);
    }
    // Lanes 0 and 16 have the scales of groups 2v and 2v + 1.
    scale = 0;
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 even = __shfl_sync(0xffffffff, mine[v], 0);
      u32 odd = __shfl_sync(0xffffffff, mine[v], 16);
      if (p.scale_kind == SCALE_UE8M0) {
        scale |= is_lane(v / 2) ? (even | odd << 8) << (v % 2 * 16) : 0;
      } else {
        scale = is_lane(2 * v) ? even : is_lane(2 * v + 1) ? odd : scale;
      }
    }
  }

  __device__ __forceinline__ void store(char* row, u32 piece, const LowLatencyParameters& p) const {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 at = value_at(piece, v);
      if (at < p.hidden) {
        store_half_vector(row + at, values[v]);
      }
    }
    u32 words = scale_words(p);
    u32 at = (piece * words + lane_id()) * 4;
    if (lane_id() < words && at < p.scale_bytes) {
      *(u32*)(row + p.row_bytes + at) = scale;
    }
  }
};

struct Nvfp4Rows {
  static constexpr u32 VALUE_BITS = 4;
  static constexpr u32 VECTORS_OF_16 = PIECE * VALUE_BITS / 8 / 512;
  typedef u32 Vector;
  Vector values[VECTORS];
  u32 scales[VECTORS];  // lanes 0, 8, 16, 24: word lane / 8 of vector v's scales

  static __device__ __forceinline__ u32 scale_words(const LowLatencyParameters&) { return 16; }

  __device__ __forceinline__ u32 scale_word() const {
    u32 word = 0;
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 of = __shfl_sync(0xffffffff, scales[v], lane_id() % 4 * 8);
      word = lane_id() / 4 == v ? of : word;
    }
    return word;
  }

  __device__ __forceinline__ void encode(const uint4 (&x)[VECTORS], const LowLatencyParameters& p) {
    float global = p.global_scale == nullptr ? 1.0f : *p.global_scale;
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      float amax = largest_among<2>(largest_of(x[v]));
      u32 scale = to_e4m3(__fmul_rn(global, __fmul_rn(amax, 1.0f / 6.0f)));
      float by = scale == 0 ? 0 : __fdiv_rn(global, from_e4m3(scale));
      u32 words[4] = {x[v].x, x[v].y, x[v].z, x[v].w};
      values[v] = 0;
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        values[v] |= to_e2m1(__fmul_rn(bf16_low(words[i]), by)) << (8 * i);
        values[v] |= to_e2m1(__fmul_rn(bf16_high(words[i]), by)) << (8 * i + 4);
      }
      scale |= __shfl_down_sync(0xffffffff, scale, 2) << 8;
      scales[v] = scale | __shfl_down_sync(0xffffffff, scale, 4) << 16;
    }
  }

  __device__ __forceinline__ void store(char* row, u32 piece, const LowLatencyParameters& p) const {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 at = value_at(piece, v);
      if (at < p.hidden) {
        *(u32*)(row + at / 2) = values[v];
        if (lane_id() % 8 == 0) {
          *(u32*)(row + p.row_bytes + at / 16) = scales[v];
        }
      }
    }
  }
};
