// SwiGLU over rows of BF16, forward and backward: silu(swished) * linear. A row of a matrix `both` holds
// `width` swished elements, then as many linear ones; the width is a multiple of eight.
//
// Roles: forward, a thread takes vectors of eight elements; backward, a warp takes a row, because it adds the
// row's products. Budget: 256 threads a block, no shared memory.
#pragma once
#include "moe/activation.cuh"
#include "moe/bf16.cuh"
#include "moe/groups.cuh"

// A vector of the result, from the swished elements at `both`; the linear ones follow `width` elements later.
__device__ __forceinline__ void swiglu_vector(const u16* both, u64 width, u16* out) {
  float swished[VECTOR];
  float linear[VECTOR];
  load_bf16(both, swished);
  load_bf16(both + width, linear);
#pragma unroll
  for (u32 j = 0; j < VECTOR; j++) {
    swished[j] = __fmul_rn(__fmul_rn(swished[j], host_sigmoid(swished[j])), linear[j]);
  }
  store_bf16(out, swished);
}

// both: [rows, 2 * width]; out: [rows, width].
extern "C" __global__ void __launch_bounds__(256)
    moe_swiglu(const u16* both, u64 rows, u64 width, u16* out) {
  u64 across = width / VECTOR;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows * across;
       i += (u64)gridDim.x * blockDim.x) {
    swiglu_vector(both + (i / across * across + i) * VECTOR, width, out + i * VECTOR);
  }
}

// both: [groups, places, 2 * width], of which each group has the first counts[g] rows; out: [groups, places,
// width].
extern "C" __global__ void __launch_bounds__(256)
    moe_swiglu_groups(const u16* both, const int* counts, u64 places, u64 groups, u64 width, u16* out) {
  u64 across = width / VECTOR;
  for (u64 work = blockIdx.x; work < groups * SHARES; work += gridDim.x) {
    u64 group = work / SHARES;
    u64 first = group * places * across;
    u64 vectors = rows_of(counts, group, places) * across;
    for (u64 i = work % SHARES * blockDim.x + threadIdx.x; i < vectors; i += SHARES * blockDim.x) {
      swiglu_vector(both + (2 * first + i / across * across + i) * VECTOR, width, out + (first + i) * VECTOR);
    }
  }
}

// In place: `both` [rows, 2 * width] becomes its gradient, and `grad` [rows, width], the gradient of the
// forward pass's result before the weights of rows, becomes that result times the weights: the gradients of
// the matrices on both sides need no more. `dots` gets the gradient of the weights. Weights and dots are
// null where rows have no weights.
extern "C" __global__ void __launch_bounds__(256)
    moe_swiglu_backward(u16* both, u16* grad, const float* weights, u64 rows, u64 width, float* dots) {
  u32 warps = blockDim.x / 32;
  for (u64 row = (u64)blockIdx.x * warps + warp_id(); row < rows; row += (u64)gridDim.x * warps) {
    float weight = weights == nullptr ? 1.f : weights[row];
    float dot = 0;
    for (u64 column = lane_id() * VECTOR; column < width; column += 32 * VECTOR) {
      u16* at = both + 2 * row * width + column;
      u16* out = grad + row * width + column;
      float swished[VECTOR];
      float linear[VECTOR];
      float of_out[VECTOR];
      load_bf16(at, swished);
      load_bf16(at + width, linear);
      load_bf16(out, of_out);
#pragma unroll
      for (u32 j = 0; j < VECTOR; j++) {
        float s = host_sigmoid(swished[j]);
        float silu = swished[j] * s;
        float inner = silu * linear[j];
        dot = __fmaf_rn(inner, of_out[j], dot);
        float scaled = weight * of_out[j];
        // silu' = s + silu * (1 - s)
        swished[j] = scaled * linear[j] * __fmaf_rn(silu, 1.f - s, s);
        linear[j] = scaled * silu;
        of_out[j] = weight * inner;
      }
      store_bf16(at, swished);
      store_bf16(at + width, linear);
      store_bf16(out, of_out);
    }
    for (u32 lanes = 16; lanes > 0; lanes /= 2) {
      dot += __shfl_xor_sync(0xffffffff, dot, lanes);
    }
    if (is_first_lane() && dots != nullptr) {
      dots[row] = dot;
    }
  }
}
