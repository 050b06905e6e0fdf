// Elements of rows and their sums. All arithmetic is in float32, rounded once to nearest even.
#pragma once
#include "ptx.cuh"

// Vectors of 16 bytes of an element type: to floats and back.
struct Bf16 {
  static constexpr u32 ELEMENTS = 8;

  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000);
  }

  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

struct Fp16 {
  static constexpr u32 ELEMENTS = 8;

  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    asm("{\n"
        ".reg .f16 a, b;\n"
        "mov.b32 {a, b}, %2;\n"
        "cvt.f32.f16 %0, a;\n"
        "cvt.f32.f16 %1, b;\n"
        "}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
  }

  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

struct Fp32 {
  static constexpr u32 ELEMENTS = 4;
};

template <class T>
__device__ __forceinline__ void add_vector(float* sum, uint4 v) {
  u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    float low;
    float high;
    T::unpack(words[i], low, high);
    sum[2 * i] += low;
    sum[2 * i + 1] += high;
  }
}

template <>
__device__ __forceinline__ void add_vector<Fp32>(float* sum, uint4 v) {
  sum[0] += __uint_as_float(v.x);
  sum[1] += __uint_as_float(v.y);
  sum[2] += __uint_as_float(v.z);
  sum[3] += __uint_as_float(v.w);
}

template <class T>
__device__ __forceinline__ uint4 round_vector(const float* sum) {
  return make_uint4(T::pack(sum[0], sum[1]), T::pack(sum[2], sum[3]), T::pack(sum[4], sum[5]),
                    T::pack(sum[6], sum[7]));
}

template <>
__device__ __forceinline__ uint4 round_vector<Fp32>(const float* sum) {
  return make_uint4(__float_as_uint(sum[0]), __float_as_uint(sum[1]), __float_as_uint(sum[2]),
                    __float_as_uint(sum[3]));
}
