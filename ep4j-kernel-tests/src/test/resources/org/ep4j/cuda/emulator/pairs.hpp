// Pairs of numbers, rounded to nearest even, as in the kernels' ptx.cuh.
#pragma once
#include "builtins.hpp"

inline u32 round_to_bf16(float value) {
  u32 bits = __float_as_uint(value);
  return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline u32 round_to_bf16(float low, float high) {
  return round_to_bf16(high) << 16 | round_to_bf16(low);
}

// No world has rows of this type.
inline u32 round_to_fp16(float, float) { emulator::fail("FP16 is not emulated"); }
inline void from_fp16(u32, float&, float&) { emulator::fail("FP16 is not emulated"); }
