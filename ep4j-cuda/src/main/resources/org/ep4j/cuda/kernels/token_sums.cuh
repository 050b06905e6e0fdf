// High-throughput combine in one kernel: rows are pushed home and summed there. What FLAT (combine.cu)
// and EXPERT_MAJOR (expert_combine.cu) have in common.
//
// Each rank pushes the rows that it holds for others into the home region of their source, where
// those of holder h lie together in the order of its FLAT rows; row n of holder h belongs to the
// n-th token that this rank sent to h. After every four rows of a holder the pusher raises the group's word
// (see protocol.cuh). The warps of the same blocks that do not push, in the end those that have
// pushed too, take parts of the tokens in order, wait for the groups of their rows and add them in
// ascending rank order to the biases. What a rank holds for its own tokens is summed where the caller
// gave it.
//
// Before it pushes to a rank, a pusher waits for its `ready`: only then are the home rows of the
// combine before no longer read. Wide rows may be combined in several passes of columns.
//
// The layout's own part is a `Token`, the rows of one token as a warp finds them:
//   Element                        of rows and results
//   VECTORS                        that a lane sums at a time
//   Token(rows)                    shared memory of the warp, [64]
//   find(p, w, homes, ways)        waits for the rows; false if that is vain
//   add_to(sum, first, end)        adds VECTORS vectors of all rows, from column `first` on
//   weight(p, k)                   the sum of the weights of choice k; the lanes that have one
//   push(p, w, groups, stages, barriers, rows)   static: pushes the rows of `groups` home; what it has
//                                  of shared memory, rows [64] too
// All lanes call the others alike.
#pragma once
#include "push_home.cuh"
#include "results.cuh"

// Where the rows of a token lie, those of the choices i and i + 32 in lane i. A warp looks while it
// sums the token before, so that it need not wait for them.
struct TokenWays {
  u64 ways[ROUNDS];

  __device__ __forceinline__ void look(const CombineParameters& p, u32 token) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      ways[round] = k < p.top_k && token < p.tokens ? p.ways[(u64)token * p.top_k + k] : NOWHERE;
    }
  }
};

// Waits for the row of another rank that a way leads to; null if that is vain.
__device__ __forceinline__ const char* await_home_row(const CombineParameters& p, const Watch& w,
                                                      const Homes& homes, u64 way) {
  u32 holder = (u32)(way >> 32);
  u32 number = (u32)way - homes.own_first[holder];
  const u64* words = group_words(p, (u32)p.rank) + holder * p.group_words;
  bool there = wait_epoch(w, words + number / GROUP, PHASE_ROWS, holder);
  u64 row = homes.own_home[holder] + number;
  return there ? p.peers[p.rank] + p.home_offset + row * p.home_row_bytes : nullptr;
}

// The columns of a token from `begin` to `end`.
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
    token.add_to(sum, first, end);
    store_results<T, U>(p, sum, row, first, end);
  }
}

template <class Token>
__device__ __forceinline__ void sum_tokens(const CombineParameters& p, const Watch& w,
                                           const Homes& homes, Token token) {
  constexpr u32 E = Token::Element::ELEMENTS;
  u32 parts = (u32)p.parts;
  u32 columns = ((u32)p.columns + parts * E - 1) / (parts * E) * E;
  Taken taken(&w.control->jobs);
  TokenWays ways;
  u32 next = taken.next();
  ways.look(p, next / parts);
  while (next < p.tokens * parts) {
    u32 number = next / parts;
    u32 begin = next % parts * columns;
    if (!token.find(p, w, homes, ways)) {
      return;
    }
    next = taken.next();
    ways.look(p, next / parts);
    sum_columns(p, number, token, begin, min(begin + columns, (u32)p.columns));
    if (p.weights != nullptr && p.column == 0 && begin == 0) {
      for (u32 k = lane_id(); k < p.top_k; k += 32) {
        p.out_weights[(u64)number * p.top_k + k] = token.weight(p, k);
      }
    }
    __syncwarp();
  }
}

template <class Token>
__device__ __forceinline__ void combine(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  const char** pointers = (const char**)(barriers + p.push_warps * STAGES);
  Homes homes((u32*)(pointers + 64 * (blockDim.x >> 5)), p.ranks);

  Control* control = (Control*)p.peers[p.rank];
  Watch w = watch_of(control, p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt, CombineEntries{p})) {
    return;
  }
  if (blockIdx.x == 0 && threadIdx.x < p.ranks && p.peers[threadIdx.x] != nullptr) {
    store_release_system((u64*)(p.peers[threadIdx.x] + p.ready_offset) + p.rank, w.epoch);
  }
  homes.fill(p);
  u32 warp = warp_id();
  const char** rows = pointers + 64 * warp;
  if (warp < p.push_warps) {
    Groups<Homes> groups(p, homes, w);
    Token::push(p, w, groups, shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                rows);
  }
  sum_tokens(p, w, homes, Token(rows));
  if (last_block(control) && threadIdx.x == 0) {
    end_epoch(w, p.receipt, CombineEntries{p});
  }
}
