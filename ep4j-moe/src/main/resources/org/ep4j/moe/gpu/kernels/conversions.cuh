// Conversions of matrices as a whole, whose elements are a multiple of eight.
//
// Roles: a thread takes vectors of eight elements. Budget: 256 threads a block, no shared memory.
#pragma once
#include "moe/bf16.cuh"

extern "C" __global__ void __launch_bounds__(256) moe_to_fp32(const u16* from, float* to, u64 vectors) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += (u64)gridDim.x * blockDim.x) {
    float values[VECTOR];
    load_bf16(from + i * VECTOR, values);
#pragma unroll
    for (u32 j = 0; j < VECTOR; j++) {
      to[i * VECTOR + j] = values[j];
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) moe_to_bf16(const float* from, u16* to, u64 vectors) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += (u64)gridDim.x * blockDim.x) {
    float values[VECTOR];
#pragma unroll
    for (u32 j = 0; j < VECTOR; j++) {
      values[j] = from[i * VECTOR + j];
    }
    store_bf16(to + i * VECTOR, values);
  }
}

// to = first + second.
extern "C" __global__ void __launch_bounds__(256)
    moe_add(const u16* first, const u16* second, u16* to, u64 vectors) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += (u64)gridDim.x * blockDim.x) {
    float sums[VECTOR];
    float added[VECTOR];
    load_bf16(first + i * VECTOR, sums);
    load_bf16(second + i * VECTOR, added);
#pragma unroll
    for (u32 j = 0; j < VECTOR; j++) {
      sums[j] += added[j];
    }
    store_bf16(to + i * VECTOR, sums);
  }
}
