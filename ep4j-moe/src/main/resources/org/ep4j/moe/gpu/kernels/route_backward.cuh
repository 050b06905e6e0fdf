// The gradient of the logits from that of the routing weights, with the bits of Router.java, rounded to
// BF16 at the end. The choice itself has no gradient.
//
// Roles: a warp takes a token. Budget: 128 threads a block; `experts` floats of shared memory a warp.
#pragma once
#include "moe/route.cuh"

// scores: [tokens, experts]; ids, grad_of_weights: [tokens, top_k]; grad: BF16 [tokens, experts].
extern "C" __global__ void __launch_bounds__(128)
    moe_route_backward(const float* scores, const int* ids, const float* grad_of_weights, u64 tokens,
                       u64 experts, u64 top_k, u64 flags, u64 scale_bits, u16* grad) {
  RouteRule rule = route_rule(experts, top_k, 1, 1, flags, scale_bits);
  extern __shared__ float shared[];
  float* of_scores = shared + warp_id() * rule.experts;
  u32 warps = blockDim.x / 32;
  for (u64 token = (u64)blockIdx.x * warps + warp_id(); token < tokens; token += (u64)gridDim.x * warps) {
    const float* row = scores + token * experts;
    const int* chosen = ids + token * top_k;
    const float* of_weights = grad_of_weights + token * top_k;
    for (u32 e = lane_id(); e < rule.experts; e += 32) {
      of_scores[e] = 0;
    }
    float sum = 0;
    float weighted = 0;
    for (u32 k = 0; k < rule.top_k; k++) {
      sum = __fadd_rn(sum, row[chosen[k]]);
      weighted = __fadd_rn(weighted, __fmul_rn(of_weights[k], row[chosen[k]]));
    }
    sum = __fadd_rn(sum, LEAST_SUM);
    __syncwarp();
    for (u32 k = lane_id(); k < rule.top_k; k += 32) {
      float of = of_weights[k];
      of = rule.normalized ? __fdiv_rn(__fadd_rn(of, -__fdiv_rn(weighted, sum)), sum) : of;
      of_scores[chosen[k]] = __fmul_rn(rule.scale, of);
    }
    __syncwarp();
    float all = 0;
    for (u32 e = 0; e < rule.experts && !rule.sigmoid; e++) {
      all = __fadd_rn(all, __fmul_rn(of_scores[e], row[e]));
    }
    for (u32 e = lane_id(); e < rule.experts; e += 32) {
      float of = rule.sigmoid ? __fmul_rn(of_scores[e], __fmul_rn(row[e], __fadd_rn(1.f, -row[e])))
                              : __fmul_rn(row[e], __fadd_rn(of_scores[e], -all));
      grad[token * experts + e] = (u16)round_to_bf16(of, 0.f);
    }
    __syncwarp();
  }
}
