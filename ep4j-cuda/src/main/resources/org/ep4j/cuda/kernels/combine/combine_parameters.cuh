// Parameters of a combine.
#pragma once
#include "common/kernel_lifecycle.cuh"

constexpr u64 NO_ROUTE = ~0ull;

// 8 bytes a field, in the order of org.ep4j.cuda.engine.launch.CombineField.
struct CombineParameters {
  char* const* peers;
  u64 rank;
  u64 ranks;
  u64 top_k;

  // The handle.
  u64 tokens;
  const u64* routes;     // [tokens, top_k]
  const u32* matrix;   // [ranks, ranks] rows, then [ranks] row limits, then [ranks] tokens
  const u64* slot_rows;   // EXPERT_MAJOR: [flat rows, top_k]; else null

  // Rows to combine; the columns of this pass begin at element `column` of a row.
  const char* y;
  u64 hidden;   // elements of a row of y
  u64 column;
  u64 columns;
  const float* weights;  // [rows, top_k] or, EXPERT_MAJOR, [rows]; null: none

  // Results.
  char* out;           // [tokens, hidden]
  const char* bias0;   // or null
  const char* bias1;
  float* out_weights;  // [tokens, top_k]

  // Offsets in every rank's region.
  u64 ready_offset;
  u64 groups_offset;        // u64 [ranks, group_words]
  u64 group_words;
  u64 return_offset;          // rows, `return_row_bytes` each
  u64 return_row_bytes;
  u64 return_weights_offset;  // float [rows, top_k]

  // Execution.
  u64 push_warps;
  u64 stage_bytes;
  u64 timeout;
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields

  // Internode, see internode.cuh; null and 0 within one node.
  const struct InternodeWorld* internode;
  const u64* internode_routes;  // [partners, internode_tokens, top_k]: see DispatchParameters
  u64 internode_tokens;
  u64 chunk_tokens;  // tokens that share a slot, at most 32; equal on all ranks
  u64 rounded;       // 1: a node's sum for a token is rounded before it travels
  u64 return_warps;  // warps that fill slots
  u64 sum_warps;     // warps that sum
  u64 load_stage_bytes;   // shared memory of each summing warp, a multiple of 128, at least 2048

  u64 parts;  // within one node: parts of a token, each summed by one warp
};

// The words that show a combine which ranks of this node have entered.
struct CombineEntrySignals {
  const CombineParameters& p;

  __device__ __forceinline__ EntrySignals operator()() const {
    return EntrySignals{p.peers, p.rank, p.ranks, p.ready_offset, 0, 0, nullptr, 0, nullptr, nullptr};
  }
};
