// The caller's rows to combine, and their weights.
#pragma once
#include "combine/combine_parameters.cuh"

// Whether rows that this rank both holds and sums are summed in the caller's memory instead of
// being pushed. Exception: internode EXPERT_MAJOR pushes them.
__device__ __forceinline__ bool sums_in_place(const CombineParameters& p) {
  return p.slot_rows == nullptr || p.internode == nullptr;
}

// Whether this applies to the row of a route.
__device__ __forceinline__ bool is_local_input(const CombineParameters& p, u64 route) {
  return sums_in_place(p) && (u32)(route >> 32) == p.rank;
}

// A row of the caller; an element has `element_bytes`.
__device__ __forceinline__ const char* input_row(const CombineParameters& p, u32 row,
                                                 u32 element_bytes) {
  return p.y + (row * p.hidden + p.column) * element_bytes;
}

// EXPERT_MAJOR: lists the rows of FLAT row `flat` in ascending local expert order; returns their
// number. All lanes; `rows` is shared memory.
__device__ __forceinline__ int list_input_rows(const CombineParameters& p, u64 flat,
                                               u32 element_bytes, const char** rows) {
  int count = 0;
  for (u32 first = 0; first < p.top_k; first += 32) {
    u32 k = first + lane_id();
    u64 slot_row = k < p.top_k ? p.slot_rows[flat * p.top_k + k] : NO_ROUTE;
    u32 mask = __ballot_sync(0xffffffff, slot_row != NO_ROUTE);
    if (slot_row != NO_ROUTE) {
      rows[count + __popc(mask & ((1u << lane_id()) - 1))] =
          input_row(p, (u32)slot_row, element_bytes);
    }
    count += __popc(mask);
  }
  return count;
}

// EXPERT_MAJOR: the weight of a choice of FLAT row `flat`; 0 if no row here is of that choice.
__device__ __forceinline__ float input_weight(const CombineParameters& p, u64 flat, u32 choice) {
  float weight = 0;
  for (u32 i = 0; i < p.top_k; i++) {
    u64 slot_row = p.slot_rows[flat * p.top_k + i];
    if (slot_row != NO_ROUTE && (u32)(slot_row >> 32) == choice) {
      weight = p.weights[(u32)slot_row];
    }
  }
  return weight;
}

// The weights of a row: in the return buffer if the row is there, else (FLAT) in the caller's
// memory.
__device__ __forceinline__ const float* row_weights(const CombineParameters& p, const char* row,
                                                   u32 element_bytes) {
  const char* region = p.peers[p.rank];
  u64 at = (u64)(row - region - p.return_offset);
  if (at < p.return_weights_offset - p.return_offset) {
    return (const float*)(region + p.return_weights_offset) + at / p.return_row_bytes * p.top_k;
  }
  return p.weights + (u64)(row - p.y) / (p.hidden * element_bytes) * p.top_k;
}
