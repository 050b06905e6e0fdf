// Vectors of eight BF16 elements, 16-byte aligned. Arithmetic is in FP32, rounded once to nearest even.
#pragma once
#include "common/ptx.cuh"

constexpr u32 VECTOR = 8;

__device__ __forceinline__ void load_bf16(const u16* at, float (&values)[VECTOR]) {
  uint4 bits = *(const uint4*)at;
  u32 pairs[] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    values[2 * i] = __uint_as_float(pairs[i] << 16);
    values[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000);
  }
}

__device__ __forceinline__ void store_bf16(u16* at, const float (&values)[VECTOR]) {
  *(uint4*)at = make_uint4(round_to_bf16(values[0], values[1]), round_to_bf16(values[2], values[3]),
                           round_to_bf16(values[4], values[5]), round_to_bf16(values[6], values[7]));
}
