// Writes the experts' answers, and checks the sums of the answers.
#pragma once

#include "soak_row_table.cuh"

extern "C" __global__ void ep4j_soak_answer(const __grid_constant__ Words w) {
  u32 rank = (u32)w.rank;
  u32 words = (u32)w.hidden / 2;
  u32 count = rows_here(w);
  for (u32 i = first_item(); i < count * words; i += item_stride()) {
    int from = ((const int*)w.sources)[i / words];
    if (from >= 0) {
      Source s = source(w, from);
      u32 bits = answer_bits(w, rank, s.rank, s.token, s.k, i % words);
      ((u32*)w.y)[i] = pair(small(bits, spread(w)), small(bits >> 16, spread(w)));
    }
  }
  if (w.y_weights) {
    u32 columns = w.by_expert ? 1 : (u32)w.top_k;
    for (u32 i = first_item(); i < count * columns; i += item_stride()) {
      int from = ((const int*)w.sources)[i / columns];
      if (from >= 0) {
        Source s = source(w, from);
        u32 k = w.by_expert ? s.k : i % columns;
        ((float*)w.y_weights)[i] = answer_weight(w, rank, s.rank, s.token, k);
      }
    }
  }
}

// Two columns of the sum of a token of this rank.
__device__ inline u32 sum_word(const Words& w, u32 token, u32 word) {
  u32 rank = (u32)w.rank;
  u32 pair_index = rank * (u32)w.max_tokens + token;
  int low = 0;
  int high = 0;
  if (w.by_expert) {
    u64 route = ((const u64*)w.routes)[pair_index];
    for (u32 k = 0; k < w.top_k; k++) {
      int expert = expert_of(route, k);
      if (expert >= 0) {
        u32 bits = answer_bits(w, owner(w, expert), rank, token, k, word);
        int factor = w.low_latency ? latency_weight(w, rank, token, k) : 1;
        low += factor * small(bits, spread(w));
        high += factor * small(bits >> 16, spread(w));
      }
    }
  } else {
    u32 holders = ((const u32*)w.holders)[pair_index];
    for (u32 d = 0; d < w.ranks; d++) {
      if (holders >> d & 1) {
        u32 bits = answer_bits(w, d, rank, token, 0, word);
        low += small(bits, spread(w));
        high += small(bits >> 16, spread(w));
      }
    }
  }
  if (w.bias) {
    u32 bits = bias_bits(w, rank, token, word);
    low += small(bits, BIAS_SPREAD);
    high += small(bits >> 16, BIAS_SPREAD);
  }
  return pair(low, high);
}

__device__ inline float sum_of_weights(const Words& w, u32 token, u32 k) {
  u32 rank = (u32)w.rank;
  u32 pair_index = rank * (u32)w.max_tokens + token;
  if (w.by_expert) {
    int expert = expert_of(((const u64*)w.routes)[pair_index], k);
    return expert < 0 ? 0 : answer_weight(w, owner(w, expert), rank, token, k);
  }
  float sum = 0;
  for (u32 d = 0; d < w.ranks; d++) {
    if (((const u32*)w.holders)[pair_index] >> d & 1) {
      sum += answer_weight(w, d, rank, token, k);
    }
  }
  return sum;
}

extern "C" __global__ void ep4j_soak_check_sums(const __grid_constant__ Words w) {
  u32 tokens = tokens_of(w, (u32)w.rank);
  u32 words = (u32)w.hidden / 2;
  for (u32 i = first_item(); i < tokens * words; i += item_stride()) {
    check(w, SUMS, i / words, 4 * (i % words), sum_word(w, i / words, i % words), (u32*)w.out + i);
  }
  if (w.out_weights) {
    u32 top_k = (u32)w.top_k;
    for (u32 i = first_item(); i < tokens * top_k; i += item_stride()) {
      float sum = sum_of_weights(w, i / top_k, i % top_k);
      check(w, SUMS_OF_WEIGHTS, i / top_k, 4 * (i % top_k), float_bits(sum),
            (u32*)w.out_weights + i);
    }
  }
}
