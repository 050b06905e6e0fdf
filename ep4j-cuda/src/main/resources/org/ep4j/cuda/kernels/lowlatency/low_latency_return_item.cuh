// What a warp of a low-latency combine returns at a time.
#pragma once
#include "lowlatency/low_latency_choices.cuh"

// Formats of return rows: one row a choice, or one a holder, summed by the holder or (RANK_MAJOR)
// by its caller.
enum ReturnFormat { RETURN_BF16, RETURN_LOGFMT, RETURN_PARTIAL, RETURN_SUMMED };

// A piece of one token's rows here, to be pushed to the token's rank: lane l has the row of choice
// l and, for partial sums, the word of its weight as first read.
struct ReturnItem {
  u32 unit;
  u32 source;
  u32 token;
  u32 piece;
  u32 row_index;
  u64 weight;

  // If there is no such token the loaded values are undefined.
  __device__ __forceinline__ ReturnItem(const Operation& op, u32 unit) : unit(unit) {
    const LowLatencyParameters& p = op.p;
    u32 ranks = (u32)p.ranks;
    u32 row = unit / pieces_of(p);
    piece = unit - row * pieces_of(p);
    token = row / ranks;
    source = row - token * ranks + (u32)p.rank;
    source = source >= ranks ? source - ranks : source;
    bool asks = token < p.max_tokens && lane_id() < p.max_choices;
    row_index = asks ? choice_rows(op)[lane_id()] : NO_ENTRY;
    weight = asks ? load_relaxed_system(op.entries(op.own, source, token) + lane_id()) : 0;
  }

  // Number of the item `step` items later; see SendItem::next.
  __device__ __forceinline__ u32 next(const Operation& op, u32 step) const {
    u32 pieces = pieces_of(op.p);
    return !PUTS ? unit + step : piece + 1 < pieces ? unit + 1 : unit + 1 + (step - 1) * pieces;
  }

  __device__ __forceinline__ const u32* choice_rows(const Operation& op) const {
    return op.p.choice_rows + op.token_slot(source, token) * op.p.max_choices;
  }

  // Row of choice first + lane.
  __device__ __forceinline__ u32 row_index_of(const Operation& op, u32 first, u32 choices) const {
    u32 k = first + lane_id();
    return k >= choices ? NO_ENTRY : first == 0 ? row_index : choice_rows(op)[k];
  }
};
