// High-throughput dispatch in EXPERT_MAJOR order, in one kernel: layout, counts, rows and their
// copies.
//
// Roles:
//   warps 0..push_warps-1     send rows and metadata in blocks 0..push_blocks-1, which own ranges of
//                             tokens; then receive: copy each arrived row to the other experts of
//                             this rank
//   warp push_warps           raises the arrival words of tokens that its block has written, then
//                             counts the block as done sending
//   the other warps           mark padding rows. Without bulk copies they then receive too, in blocks
//                             that do not send
//   last block counted done   publishes `done` to the peers
//   last block to finish      waits for the peers' `done`, ends the epoch
// Senders and receivers have separate blocks, because a sender's fences are slow on an SM whose
// other warps store rows.
//
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread; at most 16
// sending warps a block. Shared memory: words for slots and groups; then, for each sending warp,
// STAGES stages of stage_bytes, STAGES buffers of metadata_bytes and their barriers; the tiles of
// the layout lie there before.
//
// Invariant: sending warps never wait for receiving warps, so every arrival word is eventually
// raised. `done` follows the reads of the counts by all blocks, so a peer may overwrite them.
//
// A cached dispatch reads routes, targets and slot rows from the handle instead of counting, and
// waits for its peers' `ready` before it writes to them.
#include "dispatch/expert_copies.cuh"
#include "dispatch/expert_push.cuh"
#include "dispatch/expert_setup.cuh"
#include "dispatch/padding.cuh"

namespace ep4j {

__global__ void __launch_bounds__(512, 1)
    expert_dispatch_kernel(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: words, then stages, metadata buffers and barriers of the sending warps; the
  // tiles use the space of the latter three first.
  RankSlots slots((u32*)shared, p.ranks);
  ExpertGroups groups((u32*)shared + RankSlots::ARRAYS * p.ranks + 1, p.experts, p.local_experts);
  u64 words = RankSlots::ARRAYS * p.ranks + 1 + 2 * (p.experts + p.local_experts) + 1;
  char* stages = shared + (words * 4 + 127) / 128 * 128;
  char* metadata_buffers = stages + p.push_warps * STAGES * p.stage_bytes;
  u64* barriers = (u64*)(metadata_buffers + p.push_warps * STAGES * p.metadata_bytes);

  bool sends = blockIdx.x < p.push_blocks;
  TokenRange token_range{0, 0};
  if (sends) {
    token_range = TokenRange::of(p.tokens, blockIdx.x, (u32)p.push_blocks);
  }
  Choices choices;
  choices.prefetch(p, token_range.begin + threadIdx.x, p.cached ? 0 : token_range.end);
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, IntranodeEntrySignals{p})) {
    return;
  }
  if (p.cached) {
    restore(p, w, slots, groups);
  } else {
    compute_layout(p, w, token_range, slots, groups, (u32*)stages, choices, NoWork{});
  }
  find_arrivals(p, slots);
  __shared__ u32 written[16];  // index: sending warp
  if (threadIdx.x < 16) {
    written[threadIdx.x] = 0;
  }
  // The generic proxy wrote the tiles to memory that the asynchronous proxy writes next.
  fence_proxy();
  if (!__syncthreads_or(aborted(w))) {
    u32 warp = warp_id();
    u32 busy = (u32)p.push_warps + 1;
    if (warp < p.push_warps) {
      Ring ring(stages + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                (u32)p.stage_bytes);
      u32 loads = 0;
      if (sends) {
        loads = send_tokens(p, AllRanks{}, token_range, ring,
                            metadata_buffers + warp * STAGES * p.metadata_bytes, &written[warp]);
      }
#if EP4J_TMA
      ArrivingSlots arrivals(p, slots);
      move_rows(ring, ArrivedRows(p, w, arrivals), (u32)p.row_bytes, loads);
#endif
    } else if (warp == p.push_warps) {
      if (sends) {
        notify(p, w, AllRanks{}, token_range, written);
      }
      complete_send(p, w);
    } else {
      u32 idle = (blockDim.x >> 5) - busy;
      mark_padding(p, groups, blockIdx.x * idle + warp - busy, gridDim.x * idle);
    }
#if !EP4J_TMA
    if (!sends || warp < busy) {
      receive_rows<2>(p, w, ArrivingSlots(p, slots));
    }
#endif
  }
  finish(p, w, true);
}

}  // namespace ep4j
