// High-throughput dispatch in EXPERT_MAJOR order across nodes, in one kernel: as
// expert_dispatch.cu; in addition, rows for other nodes cross to a rail there, once a node, in
// slots (internode.cuh). The rail sends row and metadata to the ranks of its node as a sender does,
// and raises the arrival words of their slots.
//
// Roles of the warps of a sending block, in this order:
//   sending     send tokens to the ranks of this node, as in expert_dispatch.cu
//   filling     take the chunks of this block's tokens, for each other node, and write records
//   forwarding  take slots that arrive and send their rows within this node
//   arrivals    one warp: raises the arrival words of rows sent within this node
//   notifying   one warp: sends the slots that the filling warps have filled (slot_notices.cuh)
//   the others  mark padding rows
// The first five roles receive as soon as they are idle, and so do all warps of the other blocks.
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread; at most 16
// sending warps. Shared memory: words; then for each sending, filling and forwarding warp STAGES
// stages of stage_bytes, for each sending warp STAGES buffers of metadata_bytes, and barriers; the
// tiles of the layout lie there before.
//
// Invariant: a block counts as done sending only once it has also filled and forwarded. So a rank
// that is done has taken all slots, and counts may be published again (internode_counts.cuh).
#include "dispatch/expert_push.cuh"
#include "dispatch/expert_receive.cuh"
#include "dispatch/expert_setup.cuh"
#include "internode/internode_counts.cuh"
#include "internode/internode_expert_record.cuh"
#include "dispatch/padding.cuh"

constexpr u32 SLOTS_DONE = 1;  // barrier of a block: its slots have been filled and taken

namespace ep4j {

__global__ void __launch_bounds__(512, 1)
    internode_expert_dispatch_kernel(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: words, then stages of the moving warps, metadata buffers of the sending warps,
  // and barriers; the tiles use the space of the latter first.
  u32 moving = (u32)(p.push_warps + p.fill_warps + p.forward_warps);
  RankSlots slots((u32*)shared, p.ranks);
  ExpertGroups groups((u32*)shared + RankSlots::ARRAYS * p.ranks + 1, p.experts, p.local_experts);
  u32* schedule_words =
      (u32*)shared + RankSlots::ARRAYS * p.ranks + 1 + 2 * (p.experts + p.local_experts) + 1;
  __shared__ InternodeWorld world;

  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, InternodeEntrySignals{p, 1})) {
    return;
  }
  load_world(world, p.internode);
  __shared__ SlotNotice notices[MAX_FILL_WARPS];
  clear_notices(notices);
  u64 words = schedule_words - (u32*)shared + ChunkSchedule::words(world.partners);
  char* stages = shared + (words * 4 + 127) / 128 * 128;
  char* metadata_buffers = stages + moving * STAGES * p.stage_bytes;
  u64* barriers = (u64*)(metadata_buffers + p.push_warps * STAGES * p.metadata_bytes);
  bool sends = blockIdx.x < p.push_blocks;
  BlockChunks block_chunks(chunks_of(p.tokens, p.chunk_tokens), (u32)p.push_blocks);
  TokenRange token_range = block_chunks.tokens(p);
  if (p.cached) {
    restore(p, w, slots, groups);
  } else {
    Choices choices;
    choices.prefetch(p, token_range.begin + threadIdx.x, token_range.end);
    compute_layout(p, w, token_range, slots, groups, (u32*)stages, choices, [&]() {
      publish_internode_counts(p, world, w);
      import_internode_counts(p, world, w);
    });
    if (blockIdx.x == 0) {
      save_tokens(p, w);
    }
  }
  find_arrivals(p, slots);
  ChunkSchedule schedule(world, schedule_words, p.tokens, p.chunk_tokens, [&](u32 rank) {
    return p.cached ? matrix_row(p, ROW_TOKENS)[rank]
                    : wait_count(p, w, rank, tokens_word(p));
  });
  __shared__ u32 written[16];  // index: sending warp
  if (threadIdx.x < 16) {
    written[threadIdx.x] = 0;
  }
  // The generic proxy wrote the tiles to memory that the asynchronous proxy writes next.
  fence_proxy();
  if (!__syncthreads_or(aborted(w))) {
    RanksOfNode node{(u32)world.first, (u32)world.end};
    u32 warp = warp_id();
    char* its_stages = stages + warp * STAGES * p.stage_bytes;
    u64* its_barriers = barriers + warp * STAGES;
    u32 slot_threads = (u32)(p.fill_warps + p.forward_warps + 1) * 32;
    if (sends && warp < p.push_warps) {
      Ring ring(its_stages, its_barriers, (u32)p.stage_bytes);
      send_tokens(p, node, token_range, ring, metadata_buffers + warp * STAGES * p.metadata_bytes,
                  &written[warp]);
    } else if (sends && warp < moving) {
      SlotWorker<ExpertRecord> moves(p, world, w, StagePipeline(its_stages, its_barriers, (u32)p.stage_bytes));
      u32 number = warp - (u32)p.push_warps;
      if (number < p.fill_warps) {
        fill_slots(moves, schedule, block_chunks, notices, number);
      } else {
        forward_slots(moves, schedule, (u32)p.push_blocks, number - (u32)p.fill_warps);
      }
      barrier_arrive(SLOTS_DONE, slot_threads);
    } else if (sends && warp == moving) {
      notify(p, w, node, token_range, written);
      barrier_sync(SLOTS_DONE, slot_threads);
      complete_send(p, w);
    } else if (sends && warp == moving + 1) {
      notify_slots(world, w, notices, (u32)p.fill_warps);
    } else {
      u32 busy = moving + 2;
      u32 senders = (u32)min((u64)blockIdx.x, p.push_blocks) + (sends ? 1 : 0);
      u32 warps = blockDim.x >> 5;
      if (!sends && warp == 0) {
        complete_send(p, w);
      }
      mark_padding(p, groups, blockIdx.x * warps + warp - senders * busy,
                   gridDim.x * warps - (u32)p.push_blocks * busy);
    }
    if (!sends || warp <= moving + 1) {
      receive_rows<1>(p, w, ArrivingSlots(p, slots));
    }
  }
  finish(p, w, true, InternodeEntrySignals{p, 0}, [&]() {
    schedule.advance(world, false);
    if (is_first_thread() && !p.cached) {
      *world.published_rounds += 1;
    }
  });
}

}  // namespace ep4j
