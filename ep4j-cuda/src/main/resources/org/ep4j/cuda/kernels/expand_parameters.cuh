// What the host tells the kernel that expands rows.
#pragma once
#include "protocol.cuh"

// 8 bytes a field, in the order of org.ep4j.cuda.engine.ExpandField.
struct ExpandParameters {
  Control* control;
  u64 local_experts;
  u64 top_k;
  const u32* flat_rows;     // [1]
  const u32* group_starts;  // [local_experts + 1]
  const u32* group_rows;    // [local_experts]
  u64* places;              // [flat rows, top_k] choice << 32 | row, by ascending expert; NOWHERE fills up
  u64 cached;

  // Where the rows arrived.
  const char* from_rows;
  const char* from_scales;  // null: none
  const float* from_factors;  // null: none
  const i64* from_ids;
  const float* from_weights;  // null: none
  const int* from_tokens;
  const int* from_sources;

  // Where they go.
  char* rows;
  u64 row_bytes;
  char* scales;
  u64 scale_bytes;
  float* factors;
  float* weights;
  int* tokens;
  int* sources;
  u64 limit;  // rows that fit
  u64 fill;   // 1: mark the rows from the end of the last group to the limit
  u64 zero;   // 1: clear the padding rows

  // How it runs.
  u64* group_counts;  // [blocks, local_experts]
  u64 push_warps;
  u64 stage_bytes;
  u64 timeout;
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields
};
