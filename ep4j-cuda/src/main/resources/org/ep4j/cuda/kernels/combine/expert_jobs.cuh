// Combine of EXPERT_MAJOR rows by bulk loads: what the warps of a pipeline tell each other.
//
// The warps of a block form PIPELINES pipelines of equal size, each with a ring of slots, and one
// more warp:
//   first warp       takes groups of sums to push, then tokens of this rank; brings their rows into
//                    the ring (bring_expert_rows.cuh)
//   adding warps     the others of the pipeline: add rows as they arrive, each thread its columns,
//                    and store the sum (add_expert_rows.cuh)
//   notifying warp   the last of the block: raises the words of pushed groups (push_notices.cuh), then
//                    sums weights while the others sum rows
#pragma once
#include "combine/row_ring.cuh"

#if EP4J_TMA

// Vectors of 16 bytes of a slot that a thread reads, as in
// org.ep4j.cuda.engine.throughput.RingStages.
constexpr u32 SUM_VECTORS = 4;

// One piece of a sum: a run of columns of its rows. Rows come in this order: those of own experts,
// biases, then rows that other ranks have returned, in rank order. The sum of the first is rounded
// as it travels and takes its place among the others.
struct ExpertJob {
  char* to;       // where the sum of the columns goes
  float weight;   // of the row in this slot
  u16 columns;    // 0: there are no more jobs
  u8 own;         // rows of own experts
  u8 biases;
  u8 before;      // returned rows of ranks before this one
  u8 after;       // returned rows of ranks after this one
  bool pushed;    // only rows of own experts, and the sum travels
  bool ends_group;

  __device__ __forceinline__ u32 rows() const { return own + biases + before + after; }

  // Whether row `i` has travelled.
  __device__ __forceinline__ bool is_returned(u32 i) const { return i >= own + biases; }
};

using ExpertRing = RowRing<ExpertJob>;

#endif
