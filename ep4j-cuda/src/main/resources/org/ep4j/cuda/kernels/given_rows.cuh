// Rows to be combined where the caller gave them, and their weights.
#pragma once
#include "combine_parameters.cuh"

// Rows that this rank holds and sums itself are not pushed, but summed where the caller gave them. Across
// nodes those of EXPERT_MAJOR are.
__device__ __forceinline__ bool keeps_own(const CombineParameters& p) {
  return p.places == nullptr || p.far == nullptr;
}

// Whether that is so with the row of a way.
__device__ __forceinline__ bool is_given(const CombineParameters& p, u64 way) {
  return keeps_own(p) && (u32)(way >> 32) == p.rank;
}

// A row that the caller gave; an element takes `element_bytes`.
__device__ __forceinline__ const char* given_row(const CombineParameters& p, u32 row,
                                                 u32 element_bytes) {
  return p.y + (row * p.hidden + p.column) * element_bytes;
}

// EXPERT_MAJOR: lists the rows that belong to FLAT row `flat`, in ascending local expert order; their
// number. All lanes; `rows` is shared memory.
__device__ __forceinline__ int list_given_rows(const CombineParameters& p, u64 flat,
                                               u32 element_bytes, const char** rows) {
  int count = 0;
  for (u32 first = 0; first < p.top_k; first += 32) {
    u32 k = first + lane_id();
    u64 place = k < p.top_k ? p.places[flat * p.top_k + k] : NOWHERE;
    u32 mask = __ballot_sync(0xffffffff, place != NOWHERE);
    if (place != NOWHERE) {
      rows[count + __popc(mask & ((1u << lane_id()) - 1))] =
          given_row(p, (u32)place, element_bytes);
    }
    count += __popc(mask);
  }
  return count;
}

// EXPERT_MAJOR: the weight of a choice of FLAT row `flat`, 0 if no row here is of that choice.
__device__ __forceinline__ float given_weight(const CombineParameters& p, u64 flat, u32 choice) {
  float weight = 0;
  for (u32 i = 0; i < p.top_k; i++) {
    u64 place = p.places[flat * p.top_k + i];
    if (place != NOWHERE && (u32)(place >> 32) == choice) {
      weight = p.weights[(u32)place];
    }
  }
  return weight;
}

// The weights of a row, which lie at home as the rows do, or, FLAT, where they were given.
__device__ __forceinline__ const float* row_weights(const CombineParameters& p, const char* row,
                                                   u32 element_bytes) {
  const char* region = p.peers[p.rank];
  u64 at = (u64)(row - region - p.home_offset);
  if (at < p.home_weights_offset - p.home_offset) {
    return (const float*)(region + p.home_weights_offset) + at / p.home_row_bytes * p.top_k;
  }
  return p.weights + (u64)(row - p.y) / (p.hidden * element_bytes) * p.top_k;
}
