// High-throughput dispatch in FLAT order across nodes, in one kernel: as dispatch.cu, and rows for other
// nodes cross to a rail there, once for each node, in slots (far.cuh).
//
// Roles of a block's warps, in this order:
//   pushing     rows for this node, as in dispatch.cu
//   filling     take the chunks of this block's tokens, to each other node, and write records
//   forwarding  take slots that arrive and store their rows to the ranks of this node
//   telling     one warp: tells of the slots that those of its block have filled (far_mail.cuh)
//   the others  write what goes with rows for this node
// Filling warps wait for room in slots only, forwarding ones for slots only, and both are there from
// the beginning, so none holds up what another waits for.
//
// A rank is done once its rows and all that it forwards have been written.
#include "far_counts.cuh"
#include "far_record.cuh"
#include "finish.cuh"
#include "flat_rows.cuh"
#include "totals.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_far_dispatch(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: stages of the moving warps, their barriers, then words.
  u32 moving = (u32)(p.push_warps + p.fill_warps + p.forward_warps);
  u64* barriers = (u64*)(shared + moving * STAGES * p.stage_bytes);
  u32* expert_counts = (u32*)(barriers + moving * STAGES);
  u32* slot_words = expert_counts + p.experts;
  u32* tile_words = slot_words + Slots::ARRAYS * p.ranks + 1;
  u32* stream_words = tile_words + Tiles::words((u32)p.ranks, blockDim.x >> 5);

  Watch w = watch_of((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt, FarEntries{p, 1})) {
    return;
  }
  __shared__ FarWorld far;
  take_world(far, p.far);
  __shared__ Letter letters[MOST_FILLING];
  clear_letters(letters);
  Share share(chunks_of(p.tokens, p.chunk_tokens), gridDim.x);
  Chunk chunk = share.tokens(p);
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
    publish_rank(p, w);
    if (blockIdx.x == 0) {
      publish_far(p, far, w);
      import_far(p, far, w);
    }
    find_slots(p, w, slots, tiles, 0);
    resolve_chunk(p, chunk, slots);
    if (blockIdx.x == 0) {
      write_totals(p, w, slots);
      keep_tokens(p, w);
    }
  }
  Streams streams(far, stream_words, p.tokens, p.chunk_tokens, [&](u32 rank) {
    return p.cached ? p.matrix[p.ranks * (p.ranks + 1) + rank]
                    : wait_count(p, w, rank, tokens_word(p));
  });
  if (!__syncthreads_or(aborted(w))) {
    u32 warp = warp_id();
    char* stages = shared + warp * STAGES * p.stage_bytes;
    u64* its_barriers = barriers + warp * STAGES;
    u32 stage_bytes = (u32)p.stage_bytes;
    if (warp < p.push_warps) {
      Ring ring(stages, its_barriers, stage_bytes);
      RanksOfNode node{(u32)far.first, (u32)far.end};
      EveryToken tokens{chunk.begin + warp, chunk.end, (u32)p.push_warps};
      TokenRows<EveryToken, RanksOfNode> rows(p, node, tokens);
      move_rows(ring, rows, (u32)p.row_bytes);
    } else if (warp < moving) {
      SlotWarp<FlatRecord> moves(p, far, w, Pipe(stages, its_barriers, stage_bytes));
      u32 number = warp - (u32)p.push_warps;
      if (number < p.fill_warps) {
        fill_slots(moves, streams, share, letters, number);
      } else {
        forward_slots(moves, streams, gridDim.x, number - (u32)p.fill_warps);
      }
    } else if (warp == moving) {
      tell_slots(far, w, letters, (u32)p.fill_warps);
    } else {
      accompany(p, slots, (u32)far.first, (u32)far.end, moving + 1);
    }
  }
  finish(p, w, false, FarEntries{p, 0}, [&]() {
    streams.advance(far, false);
    if (threadIdx.x == 0 && !p.cached) {
      *far.tellings += 1;
    }
  });
}
