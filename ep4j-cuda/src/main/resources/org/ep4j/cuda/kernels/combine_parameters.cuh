// What the host says of a combine.
#pragma once
#include "kernel_lifecycle.cuh"

constexpr u64 NO_ROUTE = ~0ull;

// 8 bytes a field, in the order of org.ep4j.cuda.engine.CombineField.
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

  // Rows to combine; columns of this pass begin `column` elements into a row.
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

  // Where things lie in every rank's region.
  u64 ready_offset;
  u64 groups_offset;        // u64 [ranks, group_words]
  u64 group_words;
  u64 return_offset;          // rows, `return_row_bytes` each
  u64 return_row_bytes;
  u64 return_weights_offset;  // float [rows, top_k]

  // How it runs.
  u64 push_warps;
  u64 stage_bytes;
  u64 timeout;
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields

  // Across nodes, see internode.cuh; null and 0 in one node.
  const struct InternodeWorld* internode;
  const u64* internode_routes;  // [partners, internode_tokens, top_k]: see DispatchParameters
  u64 internode_tokens;
  u64 chunk_tokens;  // tokens that share a slot, at most 32; the same on all ranks
  u64 rounded;       // 1: what a node has for a token is summed and rounded before it travels
  u64 return_warps;  // warps that fill slots
  u64 sum_warps;     // warps that sum
  u64 load_stage_bytes;   // shared memory of each of these, a multiple of 128, at least 2048

  u64 parts;  // in one node: of a token, to be summed by a warp each
};

// Where a combine sees who of this node has entered it.
struct CombineEntrySignals {
  const CombineParameters& p;

  __device__ __forceinline__ EntrySignals operator()() const {
    return EntrySignals{p.peers, p.rank, p.ranks, p.ready_offset, 0, 0, nullptr, 0, nullptr, nullptr};
  }
};
