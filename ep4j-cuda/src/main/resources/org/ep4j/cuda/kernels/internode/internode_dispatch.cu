// High-throughput dispatch in FLAT order across nodes, in one kernel: as dispatch.cu; in addition,
// rows for other nodes cross to a rail there, once a node, in slots (internode.cuh).
//
// Roles of a block's warps, in this order:
//   pushing     push rows for this node, as in dispatch.cu
//   filling     take the chunks of this block's tokens, for each other node, and write records
//   forwarding  take slots that arrive and store their rows to the ranks of this node
//   notifying   one warp: sends the slots that the filling warps have filled (slot_notices.cuh)
//   the others  write the metadata of rows for this node
//   block 0 also exchanges counts with other nodes; the last block to finish exchanges `done`, advances the
//   slot numbers and ends the epoch
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread. Shared memory:
// for each pushing, filling and forwarding warp STAGES stages of stage_bytes and their barriers,
// then words.
//
// Invariant: filling warps wait only for room in slots, forwarding warps only for slots, and both
// run from the start, so neither blocks what the other waits for. A rank is done once its own rows
// and all rows that it forwards have been written.
#include "internode/internode_counts.cuh"
#include "internode/internode_flat_record.cuh"
#include "dispatch/finish.cuh"
#include "dispatch/flat_push.cuh"
#include "dispatch/totals.cuh"

namespace ep4j {

__global__ void __launch_bounds__(512, 1)
    internode_dispatch_kernel(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: stages of the moving warps, their barriers, then words.
  u32 moving = (u32)(p.push_warps + p.fill_warps + p.forward_warps);
  u64* barriers = (u64*)(shared + moving * STAGES * p.stage_bytes);
  u32* expert_counts = (u32*)(barriers + moving * STAGES);
  u32* slot_words = expert_counts + p.experts;
  u32* tile_words = slot_words + RankSlots::ARRAYS * p.ranks + 1;
  u32* schedule_words = tile_words + Tiles::words((u32)p.ranks, blockDim.x >> 5);

  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, InternodeEntrySignals{p, 1})) {
    return;
  }
  __shared__ InternodeWorld world;
  load_world(world, p.internode);
  __shared__ SlotNotice notices[MAX_FILL_WARPS];
  clear_notices(notices);
  BlockChunks block_chunks(chunks_of(p.tokens, p.chunk_tokens), gridDim.x);
  TokenRange token_range = block_chunks.tokens(p);
  RankSlots slots(slot_words, p.ranks);
  if (p.cached) {
    publish_ready(p, w);
    await_ready(p, w);
    restore_slots(p, slots);
    if (blockIdx.x == 0) {
      repeat_totals(p, slots);
    }
  } else {
    CountedExperts experts(p, expert_counts);
    Tiles tiles(tile_words, (u32)p.ranks, blockDim.x >> 5);
    Choices choices;
    choices.prefetch(p, token_range.begin + threadIdx.x, token_range.end);
    count_token_range(p, w, token_range, tiles, experts, choices);
    publish_block(p, w, tiles, experts);
    publish_rank(p, w);
    if (blockIdx.x == 0) {
      publish_internode_counts(p, world, w);
      import_internode_counts(p, world, w);
    }
    find_slots(p, w, slots, tiles, 0);
    refuse_overflow(p, slots);
    resolve_token_range(p, token_range, slots);
    if (blockIdx.x == 0) {
      write_totals(p, w, slots, expert_counts);
      save_tokens(p, w);
    }
  }
  ChunkSchedule schedule(world, schedule_words, p.tokens, p.chunk_tokens, [&](u32 rank) {
    return p.cached ? matrix_row(p, ROW_TOKENS)[rank]
                    : wait_count(p, w, rank, tokens_word(p));
  });
  if (!__syncthreads_or(aborted(w))) {
    u32 warp = warp_id();
    char* stages = shared + warp * STAGES * p.stage_bytes;
    u64* its_barriers = barriers + warp * STAGES;
    u32 stage_bytes = (u32)p.stage_bytes;
    if (warp < p.push_warps) {
      Ring ring(stages, its_barriers, stage_bytes);
      RanksOfNode node{(u32)world.first, (u32)world.end};
      StridedTokens tokens{token_range.begin + warp, token_range.end, (u32)p.push_warps};
      TokenRows<StridedTokens, RanksOfNode> rows(p, node, tokens);
      move_rows(ring, rows, (u32)p.row_bytes);
    } else if (warp < moving) {
      SlotWorker<FlatRecord> moves(p, world, w, StagePipeline(stages, its_barriers, stage_bytes));
      u32 number = warp - (u32)p.push_warps;
      if (number < p.fill_warps) {
        fill_slots(moves, schedule, block_chunks, notices, number);
      } else {
        forward_slots(moves, schedule, gridDim.x, number - (u32)p.fill_warps);
      }
    } else if (warp == moving) {
      notify_slots(world, w, notices, (u32)p.fill_warps);
    } else {
      write_metadata(p, slots, (u32)world.first, (u32)world.end, moving + 1);
    }
  }
  finish(p, w, false, InternodeEntrySignals{p, 0}, [&]() {
    schedule.advance(world, false);
    if (is_first_thread() && !p.cached) {
      *world.published_rounds += 1;
    }
  });
}

}  // namespace ep4j
