// From logits to scores, and the choice of experts, with the bits of Router.java.
//
// Roles: a warp takes a token. Budget: 128 threads a block; 2 * experts floats of shared memory a warp.
// Invariant: sums follow the order of experts and of choices, as on the host, so each lane adds all terms.
#pragma once
#include "moe/activation.cuh"

constexpr float LEAST_SUM = 1e-20f;

// How tokens choose. Scores are sigmoids, otherwise a softmax.
struct RouteRule {
  u32 experts;
  u32 top_k;
  u32 groups;
  u32 top_groups;
  bool sigmoid;
  bool normalized;
  float scale;
};

// Words of the rule, by the names of MoeKernel.
__device__ __forceinline__ RouteRule route_rule(u64 experts, u64 top_k, u64 groups, u64 top_groups,
                                                u64 flags, u64 scale_bits) {
  return {(u32)experts,       (u32)top_k,          (u32)groups,
          (u32)top_groups,    (flags & 1) != 0,    (flags & 2) != 0,
          __uint_as_float((u32)scale_bits)};
}

// Whether all logits of a token are finite, on all lanes. Records the first one, by tokens and experts, that is
// infinite or no number. `bad` is zero before: it holds the complement of the position, so that the largest
// word is the first position.
__device__ __forceinline__ bool are_finite(const float* row, u64 token, u64 experts, u64* bad) {
  bool finite = true;
  for (u32 e = lane_id(); e < experts; e += 32) {
    if ((__float_as_uint(row[e]) & 0x7f800000) == 0x7f800000) {
      atomicMax(bad, ~(token * experts + e));
      finite = false;
    }
  }
  return __all_sync(0xffffffff, finite);
}

// Scores of a token, in global memory and in `values`, from its logits.
__device__ __forceinline__ void score(const RouteRule& rule, const float* logits, float* scores,
                                      float* values) {
  float largest = __uint_as_float(0xff800000);
  for (u32 e = lane_id(); e < rule.experts; e += 32) {
    largest = fmaxf(largest, logits[e]);
  }
  for (u32 lanes = 16; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
  }
  for (u32 e = lane_id(); e < rule.experts; e += 32) {
    values[e] = rule.sigmoid ? host_sigmoid(logits[e]) : host_exp(__fadd_rn(logits[e], -largest));
  }
  __syncwarp();
  float sum = 0;
  for (u32 e = 0; e < rule.experts && !rule.sigmoid; e++) {
    sum = __fadd_rn(sum, values[e]);
  }
  __syncwarp();
  for (u32 e = lane_id(); e < rule.experts; e += 32) {
    values[e] = rule.sigmoid ? values[e] : __fdiv_rn(values[e], sum);
    scores[e] = values[e];
  }
}

// Leaves the experts of the best groups, of equal ones the lower; the others lose against every score.
__device__ __forceinline__ void keep_top_groups(const RouteRule& rule, float* wanted, float* group_scores) {
  u32 each = rule.experts / rule.groups;
  for (u32 g = lane_id(); g < rule.groups; g += 32) {
    float first = __uint_as_float(0xff800000);
    float second = first;
    for (u32 e = g * each; e < (g + 1) * each; e++) {
      second = fmaxf(second, fminf(first, wanted[e]));
      first = fmaxf(first, wanted[e]);
    }
    group_scores[g] = rule.sigmoid ? __fadd_rn(first, second) : first;
  }
  __syncwarp();
  for (u32 g = lane_id(); g < rule.groups; g += 32) {
    u32 better = 0;
    for (u32 other = 0; other < rule.groups; other++) {
      better += group_scores[other] > group_scores[g] || (group_scores[other] == group_scores[g] && other < g);
    }
    for (u32 e = g * each; e < (g + 1) * each && better >= rule.top_groups; e++) {
      wanted[e] = __uint_as_float(0xff800000);
    }
  }
  __syncwarp();
}

// The largest, of equal ones the lowest; the same on all lanes.
__device__ __forceinline__ u32 best_expert(const RouteRule& rule, const float* wanted) {
  u32 best = 0;
  float value = wanted[0];
  for (u32 e = lane_id(); e < rule.experts; e += 32) {
    if (wanted[e] > value || (wanted[e] == value && e < best)) {
      best = e;
      value = wanted[e];
    }
  }
  for (u32 lanes = 16; lanes > 0; lanes /= 2) {
    u32 other = __shfl_xor_sync(0xffffffff, best, lanes);
    float others = __shfl_xor_sync(0xffffffff, value, lanes);
    if (others > value || (others == value && other < best)) {
      best = other;
      value = others;
    }
  }
  return best;
}

// scores: [tokens, experts]; ids, weights: [tokens, top_k]. The bias is null where there is none. A token with
// a logit that is not finite chooses no expert, and has no scores.
extern "C" __global__ void __launch_bounds__(128)
    moe_route(const float* logits, const float* bias, u64 tokens, u64 experts, u64 top_k, u64 groups,
              u64 top_groups, u64 flags, u64 scale_bits, float* scores, int* ids, float* weights, u64* bad) {
  RouteRule rule = route_rule(experts, top_k, groups, top_groups, flags, scale_bits);
  extern __shared__ float shared[];
  float* wanted = shared + warp_id() * 2 * rule.experts;
  u32 warps = blockDim.x / 32;
  for (u64 token = (u64)blockIdx.x * warps + warp_id(); token < tokens; token += (u64)gridDim.x * warps) {
    const float* row = logits + token * experts;
    if (!are_finite(row, token, experts, bad)) {
      // Without an order of the scores: an expert could be chosen twice.
      for (u32 k = lane_id(); k < rule.top_k; k += 32) {
        ids[token * top_k + k] = -1;
        weights[token * top_k + k] = 0;
      }
      continue;
    }
    float* of_token = scores + token * experts;
    score(rule, row, of_token, wanted);
    for (u32 e = lane_id(); e < rule.experts && bias != nullptr; e += 32) {
      wanted[e] = __fadd_rn(wanted[e], bias[e]);
    }
    __syncwarp();
    if (rule.groups > 1) {
      keep_top_groups(rule, wanted, wanted + rule.experts);
    }
    float sum = 0;
    for (u32 k = 0; k < rule.top_k; k++) {
      u32 best = best_expert(rule, wanted);
      float weight = of_token[best];
      sum = __fadd_rn(sum, weight);
      __syncwarp();
      if (is_first_lane()) {
        ids[token * top_k + k] = (int)best;
        weights[token * top_k + k] = weight;
        wanted[best] = __uint_as_float(0xff800000);
      }
      __syncwarp();
    }
    for (u32 k = lane_id(); k < rule.top_k; k += 32) {
      float weight = weights[token * top_k + k];
      weight = rule.normalized ? __fdiv_rn(weight, __fadd_rn(sum, LEAST_SUM)) : weight;
      weights[token * top_k + k] = __fmul_rn(weight, rule.scale);
    }
    __syncwarp();
  }
}
