// High-throughput dispatch in FLAT order, in one kernel: layout, counts and rows.
//
// Roles. Each block owns a range of tokens.
//   all warps               count the range, publish the counts, resolve routes to slots
//   warps 0..push_warps-1   push rows directly into the receive regions, each row from one copy in
//                           shared memory to all its ranks: first rows of the own range, then the
//                           next row of any range of this rank
//   the other warps         write the metadata of the range's rows: at a rank these rows are adjacent,
//                           so indices, weights, scales and sources are written in long runs
//   block 0                 also writes the totals for the host, before its rows
//   last block to finish    publishes `done` to the peers, waits for theirs, ends the epoch
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread. Shared memory:
// for each pushing warp STAGES stages of stage_bytes and their barriers, then words for counts,
// slots, tiles.
//
// Invariant: slots follow from the counts of all ranks, in rank and token order, so no two rows
// share a slot and the result does not depend on timing. A rank publishes `done` only after all its
// blocks have read the counts and written their rows.
//
// A cached dispatch reads routes, lists and matrix from the handle instead of counting, and waits
// for its peers' `ready` before it writes to them.
#include "dispatch/finish.cuh"
#include "dispatch/flat_push.cuh"
#include "dispatch/totals.cuh"

// The warps that push rows. `own` is a counter in shared memory, see ClaimedTokens.
__device__ __forceinline__ void push(const DispatchParameters& p, const WaitContext& w, TokenRange token_range,
                                     u32* own, char* stages, u64* barriers) {
  u32 warp = warp_id();
  Ring ring(stages + warp * STAGES * p.stage_bytes, barriers + warp * STAGES, (u32)p.stage_bytes);
  ClaimedTokens tokens(p, w, token_range, own);
  move_rows(ring, TokenRows<ClaimedTokens, AllRanks>(p, AllRanks{}, tokens), (u32)p.row_bytes);
}

namespace ep4j {

__global__ void __launch_bounds__(512, 1)
    dispatch_kernel(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ u32 own;
  // Shared memory: stages of the pushing warps, their barriers, then words.
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  u32* expert_counts = (u32*)(barriers + p.push_warps * STAGES);
  u32* slot_words = expert_counts + p.experts;
  u32* tile_words = slot_words + RankSlots::ARRAYS * p.ranks + 1;

  if (is_first_thread()) {
    own = 0;
  }
  TokenRange token_range = TokenRange::of(p.tokens, blockIdx.x, gridDim.x);
  Choices choices;
  choices.prefetch(p, token_range.begin + threadIdx.x, p.cached ? 0 : token_range.end);
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, IntranodeEntrySignals{p})) {
    return;
  }
  RankSlots slots(slot_words, p.ranks);
  if (p.cached) {
    publish_ready(p, w);
    await_ready(p, w);
    restore_slots(p, slots);
  } else {
    CountedExperts experts(p, expert_counts);
    Tiles tiles(tile_words, (u32)p.ranks, blockDim.x >> 5);
    count_token_range(p, w, token_range, tiles, experts, choices);
    publish_block(p, w, tiles, experts);
    publish_rank(p, w);
    find_slots(p, w, slots, tiles, 0);
    refuse_overflow(p, slots);
    resolve_token_range(p, token_range, slots);
  }
  // The routes of this block are complete; warps of all blocks may send its tokens.
  if (is_first_thread()) {
    __threadfence();
    atomicAdd(&w.control->senders, 1ull);
  }
  if (blockIdx.x == 0) {
    // Before the rows: the host waits for the totals, whose fence would wait for rows on their way.
    // Other blocks push the rows that this block leaves.
    if (p.cached) {
      repeat_totals(p, slots);
    } else {
      write_totals(p, w, slots, expert_counts);
    }
  }
  if (!__syncthreads_or(aborted(w))) {
    if (warp_id() < p.push_warps) {
      push(p, w, token_range, &own, shared, barriers);
    } else {
      write_metadata(p, slots, 0, (u32)p.ranks, (u32)p.push_warps);
    }
  }
  finish(p, w, false);
}

}  // namespace ep4j
