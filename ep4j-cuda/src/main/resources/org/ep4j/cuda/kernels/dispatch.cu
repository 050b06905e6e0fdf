// High-throughput dispatch in FLAT order, in one kernel: layout, counts and rows.
//
// Blocks own runs of tokens. Once the slots are known some warps of a block push its rows straight
// into the receive regions, each row from one copy in shared memory to all its ranks, while the
// other warps write what goes with them: a block's rows at a rank are neighbours, so indices,
// weights, scales and sources go out in long runs. The last block tells the peers that all is
// written, waits until they have said the same, and so ends the operation.
//
// A cached dispatch takes ways, lists and matrix from the handle instead of counting, and waits for
// its peers' `ready` before it writes to them.
#include "finish.cuh"
#include "flat_rows.cuh"
#include "totals.cuh"

// The warps that push rows.
__device__ __forceinline__ void push(const DispatchParameters& p, Chunk chunk, char* stages,
                                     u64* barriers) {
  u32 warp = warp_id();
  Ring ring(stages + warp * STAGES * p.stage_bytes, barriers + warp * STAGES, (u32)p.stage_bytes);
  TokenRows<AllRanks> rows(p, AllRanks{}, chunk.begin + warp, chunk.end, (u32)p.push_warps);
  move_rows(ring, rows, rows, (u32)p.row_bytes);
}

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_dispatch(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: stages of the pushing warps, their barriers, then words.
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  u32* expert_counts = (u32*)(barriers + p.push_warps * STAGES);
  u32* slot_words = expert_counts + p.experts;
  u32* tile_words = slot_words + Slots::ARRAYS * p.ranks + 1;

  Watch w = watch_of((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt)) {
    return;
  }
  Chunk chunk = Chunk::of(p.tokens, blockIdx.x, gridDim.x);
  Slots slots(slot_words, p.ranks);
  if (p.cached) {
    say_ready(p, w);
    await_ready(p, w);
    recall_slots(p, slots);
    if (blockIdx.x == 0) {
      repeat_totals(p);
    }
  } else {
    CountedExperts experts(p, expert_counts);
    Tiles tiles(tile_words, (u32)p.ranks, blockDim.x >> 5);
    count_chunk(p, w, chunk, tiles, experts);
    publish_block(p, w, tiles, experts);
    if (blockIdx.x == 0) {
      publish_rank(p, w);
    }
    find_slots(p, w, slots, tiles, 0);
    resolve_chunk(p, chunk, slots);
    if (blockIdx.x == 0) {
      write_totals(p, w, slots);
    }
  }
  if (!__syncthreads_or(aborted(w))) {
    if (warp_id() < p.push_warps) {
      push(p, chunk, shared, barriers);
    } else {
      accompany(p, slots, 0, (u32)p.ranks, (u32)p.push_warps);
    }
  }
  finish(p, w, false);
}
