// exp and sigmoid with the bits of Activation.java: products, sums, quotients and fused multiply-adds that
// IEEE 754 rounds the same way everywhere, in the same order. The compiler must not fuse them further, so
// each has its intrinsic.
#pragma once
#include "common/ptx.cuh"

// exp(n ln 2 + r) = 2^n exp(r); exp(r) by the first nine terms of its series.
__device__ __forceinline__ float host_exp(float value) {
  constexpr float LOG2_E = 0x1.715476p0f;
  // Adding and taking away 1.5 * 2^23 rounds to an integer.
  constexpr float ROUNDING = 0x1.8p23f;
  constexpr float MINUS_LN2_HIGH = -0x1.62e4p-1f;
  constexpr float MINUS_LN2_LOW = (float)(0x1.62e4p-1 - 0.6931471805599453);
  constexpr float INVERSE_FACTORIALS[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f,
                                          1 / 6.f,    1 / 2.f,   1.f,       1.f};
  float bounded = fmaxf(fminf(value, 88.f), -87.f);
  float shifted = __fadd_rn(__fmul_rn(bounded, LOG2_E), ROUNDING);
  float n = __fadd_rn(shifted, -ROUNDING);
  float r = __fmaf_rn(n, MINUS_LN2_LOW, __fmaf_rn(n, MINUS_LN2_HIGH, bounded));
  float sum = 1 / 40320.f;
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    sum = __fmaf_rn(sum, r, INVERSE_FACTORIALS[i]);
  }
  // The last bits of the shifted number are n; the shift drops all others.
  return __fmul_rn(sum, __uint_as_float((__float_as_uint(shifted) + 127) << 23));
}

__device__ __forceinline__ float host_sigmoid(float value) {
  return __fdiv_rn(1.f, __fadd_rn(host_exp(-value), 1.f));
}
