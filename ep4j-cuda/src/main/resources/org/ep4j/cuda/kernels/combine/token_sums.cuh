// High-throughput combine by push; the part that FLAT (combine.cu) and EXPERT_MAJOR
// (expert_combine.cu) share.
//
// Push: each rank pushes the rows that it holds for other ranks into the return buffer of their
// source. There the rows of holder h are contiguous, in the order of its FLAT rows; row n of holder
// h belongs to the n-th token that this rank sent to h. After every four rows of a holder the
// pusher raises the word of the group (protocol.cuh). Before the first push to a rank, a pusher
// waits for that rank's `ready`: from then on the return rows of the previous combine are no longer
// read.
//
// Sum: the other warps, and the pushing warps once they have pushed, take parts of the tokens in
// order, wait for the groups of their rows and add the rows to the biases in ascending rank order.
// Rows that a rank holds for its own tokens are summed in the caller's memory. Wide rows may be
// combined in several passes of columns.
//
// The part that depends on the layout is a `Token`, the rows of one token as a warp finds them:
//   Element                        of rows and results
//   VECTORS                        that a lane sums at a time
//   Token(rows)                    shared memory of the warp, pointers_of_warp
//   find(p, w, return_layout, routes)  waits for the rows; false on abort
//   add_to(p, sum, first, end)     adds VECTORS vectors of all rows, from column `first` on
//   weight(p, k)                   the sum of the weights of choice k; lanes with a choice
//   push(p, w, groups, stages, barriers, rows)   static: pushes the rows of `groups`; stages, barriers
//                                  and rows are shared memory of the warp
// All lanes call the others together.
#pragma once
#include "combine/push_return_rows.cuh"
#include "combine/sums.cuh"

// The place in the return buffer of the row of a route to another rank.
__device__ __forceinline__ const char* return_row(const CombineParameters& p,
                                                  const ReturnLayout& return_layout, u64 route) {
  u32 holder = (u32)(route >> 32);
  u64 row = return_layout.own_return_row[holder] + (u32)route - return_layout.own_first[holder];
  return return_layout.region + p.return_offset + row * p.return_row_bytes;
}

// Whether this lane may witness waits for rows that return: block 0, the first warp. It waits for rows of
// several ranks at once, one lane a rank.
__device__ __forceinline__ bool is_sum_witness() { return blockIdx.x == 0 && warp_id() == 0; }

// Waits for that row; null on abort.
__device__ __forceinline__ const char* await_return_row(const CombineParameters& p, const WaitContext& w,
                                                      const ReturnLayout& return_layout, u64 route,
                                                      bool witness) {
  u32 holder = (u32)(route >> 32);
  u32 number = (u32)route - return_layout.own_first[holder];
  const u64* words = (const u64*)(return_layout.region + p.groups_offset) + holder * p.group_words;
  bool there = wait_epoch(w, words + number / GROUP, PHASE_ROWS, holder, witness);
  return there ? return_row(p, return_layout, route) : nullptr;
}

// Sums the columns of a token from `begin` to `end`.
template <class Token>
__device__ __forceinline__ void sum_columns(const CombineParameters& p, u32 number,
                                            const Token& token, u32 begin, u32 end) {
  using T = typename Token::Element;
  constexpr u32 E = T::ELEMENTS;
  constexpr u32 U = Token::VECTORS;
  u64 row = ((u64)number * p.hidden + p.column) * (16 / E);
  for (u32 first = begin + lane_id() * E; first < end; first += 32 * E * U) {
    float sum[U][E] = {};
    add_biases<T, U>(p, sum, row, first, end);
    token.add_to(p, sum, first, end);
    store_results<T, U>(p, sum, row, first, end);
  }
}

template <class Token>
__device__ __forceinline__ void sum_tokens(const CombineParameters& p, const WaitContext& w,
                                           const ReturnLayout& return_layout, Token token) {
  constexpr u32 E = Token::Element::ELEMENTS;
  u32 parts = (u32)p.parts;
  u32 columns = ((u32)p.columns + parts * E - 1) / (parts * E) * E;
  WorkCounter taken(&w.control->jobs);
  TokenRoutes routes;
  u32 next = taken.next();
  routes.prefetch(p, next / parts);
  while (next < p.tokens * parts) {
    u32 number = next / parts;
    u32 begin = next % parts * columns;
    if (!token.find(p, w, return_layout, routes)) {
      return;
    }
    next = taken.next();
    routes.prefetch(p, next / parts);
    sum_columns(p, number, token, begin, min(begin + columns, (u32)p.columns));
    if (p.weights != nullptr && p.column == 0 && begin == 0) {
      for (u32 k = lane_id(); k < p.top_k; k += 32) {
        p.out_weights[(u64)number * p.top_k + k] = token.weight(p, k);
      }
    }
    __syncwarp();
  }
}

// Pushes rows and sums tokens, in all warps. `shared` is the block's dynamic shared memory.
template <class Token>
__device__ __forceinline__ void push_and_sum(const CombineParameters& p, const WaitContext& w,
                                             char* shared) {
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  const char** pointers = (const char**)(barriers + p.push_warps * STAGES);
  u32 pointers_each = pointers_of_warp(p);
  ReturnLayout return_layout(p, (char*)(pointers + pointers_each * (blockDim.x >> 5)));
  return_layout.fill(p);
  u32 warp = warp_id();
  const char** rows = pointers + pointers_each * warp;
  if (warp < p.push_warps) {
    RowGroups<ReturnLayout> groups(p, return_layout, w);
    Token::push(p, w, groups, shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                rows);
  }
  sum_tokens(p, w, return_layout, Token(rows));
}
