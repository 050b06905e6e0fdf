// Elements of rows and their sums. All arithmetic is in float32, rounded once to nearest even.
#pragma once
#include "common/ptx.cuh"

// Conversion of 16-byte vectors of an element type to floats and back.
struct Bf16 {
  static constexpr u32 ELEMENTS = 8;

  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000);
  }

  static __device__ __forceinline__ u32 pack(float low, float high) {
    return round_to_bf16(low, high);
  }
};

struct Fp16 {
  static constexpr u32 ELEMENTS = 8;

  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    from_fp16(pair, low, high);
  }

  static __device__ __forceinline__ u32 pack(float low, float high) {
    return round_to_fp16(low, high);
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
