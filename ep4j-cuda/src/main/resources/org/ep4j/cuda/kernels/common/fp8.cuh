// BF16 values as FP8 E4M3 with a scale for each block of 128. The arithmetic equals that of
// org.ep4j.engine.host.kernel.Fp8, operation by operation; nothing may be contracted.
//
// 16 neighbouring lanes of a warp hold a block, each a vector of 8 values.
#pragma once
#include "common/ptx.cuh"

enum ScaleKind { SCALE_FLOAT32 = 0, SCALE_FLOAT32_POW2 = 1, SCALE_UE8M0 = 2 };

__device__ __forceinline__ float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000); }

// The largest magnitude of a vector, ignoring NaN.
__device__ __forceinline__ float largest_of(uint4 v) {
  float largest = 0;
  u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    largest = fmaxf(largest, fmaxf(fabsf(bf16_low(words[i])), fabsf(bf16_high(words[i]))));
  }
  return largest;
}

template <u32 LANES>
__device__ __forceinline__ float largest_among(float largest) {
#pragma unroll
  for (u32 i = LANES / 2; i > 0; i /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, i));
  }
  return largest;
}

// E4M3, to nearest even, saturating at 448; NaN becomes 0x7f.
__device__ __forceinline__ u32 to_e4m3(float value) {
  if (value != value) {
    return 0x7f;
  }
  // A sum with 2^20 times the next lower power of two keeps 3 bits behind the leading one.
  float magnitude = fminf(fabsf(value), 448.0f);
  u32 exponent = max(__float_as_uint(magnitude) & 0x7f800000, 121u << 23);
  u32 big = exponent + (20u << 23);
  u32 eighths = __float_as_uint(__fadd_rn(magnitude, __uint_as_float(big))) - big;
  u32 code = ((exponent - (121u << 23)) >> 20) + eighths;
  return (__float_as_uint(value) >> 24 & 0x80) | code;
}

__device__ __forceinline__ u32 to_e4m3_pair(float low, float high) {
#if EP4J_E4M3
  return round_to_e4m3(low, high);
#else
  return to_e4m3(low) | to_e4m3(high) << 8;
#endif
}

// Exact, but for the code of a NaN.
__device__ __forceinline__ float from_e4m3(u32 code) {
  u32 magnitude = code & 0x7f;
  float value = magnitude < 8 ? __fmul_rn((float)magnitude, 0x1p-9f)
                              : __uint_as_float((magnitude << 20) + (120u << 23));
  return code & 0x80 ? -value : value;
}

// The largest magnitude of the block of this lane, which is no smaller than 1e-4.
__device__ __forceinline__ float fp8_amax(uint4 mine) {
  return fmaxf(largest_among<16>(largest_of(mine)), 1e-4f);
}

// The biased exponent of the scale as a power of two.
__device__ __forceinline__ u32 fp8_scale_exponent(float amax) {
  u32 bits = __float_as_uint(__fmul_rn(amax, 1.0f / 448.0f));
  return (bits >> 23) + ((bits & 0x7fffff) != 0 ? 1 : 0);
}

// The factor that scales a block into range.
__device__ __forceinline__ float fp8_multiplier(u64 kind, float amax) {
  if (__float_as_uint(amax) == 0x7f800000) {
    return 0;
  }
  return kind == SCALE_FLOAT32 ? __fdiv_rn(448.0f, amax)
                               : __uint_as_float((254 - fp8_scale_exponent(amax)) << 23);
}

// The stored scale.
__device__ __forceinline__ u32 fp8_scale_bits(u64 kind, float amax) {
  return kind == SCALE_FLOAT32        ? __float_as_uint(__fmul_rn(amax, 1.0f / 448.0f))
         : kind == SCALE_FLOAT32_POW2 ? fp8_scale_exponent(amax) << 23
                                      : fp8_scale_exponent(amax);
}

// A vector of 8 values.
__device__ __forceinline__ uint2 to_fp8(uint4 vector, float multiplier) {
  u32 words[4] = {vector.x, vector.y, vector.z, vector.w};
  u32 pairs[4];
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    pairs[i] = to_e4m3_pair(__fmul_rn(bf16_low(words[i]), multiplier),
                            __fmul_rn(bf16_high(words[i]), multiplier));
  }
  return make_uint2(pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16);
}
