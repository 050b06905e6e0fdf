// High-throughput dispatch in EXPERT_MAJOR order, in one kernel: layout, counts, rows and their
// copies. The first blocks own runs of tokens and send them, the others take what arrives here at the
// same time, and who has sent all helps them. Apart, because fences of senders are slow on a
// multiprocessor whose other warps store rows. Nobody who sends waits for anybody who receives.
//
// A cached dispatch takes ways, targets and places from the handle instead of counting, and waits
// for its peers' `ready` before it writes to them.
#include "expert_push.cuh"
#include "expert_receive.cuh"
#include "expert_setup.cuh"
#include "padding.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_expert_dispatch(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: words, then stages, companions and barriers of the sending warps; where those
  // lie, the tiles lay before.
  RankSlots slots((u32*)shared, p.ranks);
  ExpertGroups groups((u32*)shared + RankSlots::ARRAYS * p.ranks + 1, p.experts, p.local_experts);
  u64 words = RankSlots::ARRAYS * p.ranks + 1 + 2 * (p.experts + p.local_experts) + 1;
  char* stages = shared + (words * 4 + 127) / 128 * 128;
  char* metadata_buffers = stages + p.push_warps * STAGES * p.stage_bytes;
  u64* barriers = (u64*)(metadata_buffers + p.push_warps * STAGES * p.metadata_bytes);

  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, IntranodeEntrySignals{p})) {
    return;
  }
  bool sends = blockIdx.x < p.push_blocks;
  TokenRange token_range{0, 0};
  if (sends) {
    token_range = TokenRange::of(p.tokens, blockIdx.x, (u32)p.push_blocks);
  }
  if (p.cached) {
    restore(p, w, slots, groups);
  } else {
    compute_layout(p, w, token_range, slots, groups, (u32*)stages, NoWork{});
  }
  find_arrivals(p, slots);
  __shared__ u32 written[16];  // by sending warp
  if (threadIdx.x < 16) {
    written[threadIdx.x] = 0;
  }
  // Tiles were written in the generic proxy where the asynchronous one writes next.
  fence_proxy();
  if (!__syncthreads_or(aborted(w))) {
    u32 warp = warp_id();
    if (sends && warp < p.push_warps) {
      Ring ring(stages + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                (u32)p.stage_bytes);
      send_tokens(p, AllRanks{}, token_range, ring, metadata_buffers + warp * STAGES * p.metadata_bytes,
                  &written[warp]);
    } else if (sends && warp == p.push_warps) {
      notify(p, w, AllRanks{}, token_range, written);
      complete_send(p, w);
    } else {
      // Warps beside senders have time for this; rows would keep notifications waiting.
      u32 busy = (u32)p.push_warps + 1;
      u32 senders = (u32)min((u64)blockIdx.x, p.push_blocks) + (sends ? 1 : 0);
      u32 warps = blockDim.x >> 5;
      if (!sends && warp == 0) {
        complete_send(p, w);
      }
      mark_padding(p, groups, blockIdx.x * warps + warp - senders * busy,
                   gridDim.x * warps - (u32)p.push_blocks * busy);
    }
    if (!sends || warp <= p.push_warps) {
      receive_rows<2>(p, w, ArrivingSlots(p, slots));
    }
  }
  finish(p, w, true);
}
