// High-throughput dispatch in EXPERT_MAJOR order, in one kernel: layout, counts, rows and their
// copies. The first blocks own runs of tokens and send them, the others take what arrives here at the
// same time, and who has sent all helps them. Apart, because fences of senders are slow on a
// multiprocessor whose other warps store rows. Nobody who sends waits for anybody who receives.
//
// A cached dispatch takes ways, targets and places from the handle instead of counting, and waits
// for its peers' `ready` before it writes to them.
#include "expert_push.cuh"
#include "expert_receive.cuh"
#include "padding.cuh"

// Where the slots of each source begin.
__device__ __forceinline__ void find_arrivals(const DispatchParameters& p, const Slots& slots) {
  for (u32 s = threadIdx.x; s < p.ranks; s += blockDim.x) {
    u32 first = 0;
    for (u32 before = 0; before < s; before++) {
      first += slots.arriving[before];
    }
    slots.first[s] = first;
  }
  __syncthreads();
}

__device__ __forceinline__ void lay_out(const DispatchParameters& p, const Watch& w, Chunk chunk,
                                        const Slots& slots, const ExpertGroups& groups, u32* tile_words) {
  Tiles tiles(tile_words, (u32)p.ranks, (u32)p.tile_warps);
  NumberedExperts experts(p, tile_words + Tiles::words((u32)p.ranks, (u32)p.tile_warps));
  count_chunk(p, w, chunk, tiles, experts);
  if (blockIdx.x < p.push_blocks) {
    publish_block(p, w, tiles, experts);
  }
  if (blockIdx.x == 0) {
    publish_rank(p, w);
  }
  find_slots(p, w, slots, tiles, (u32)p.landing_rows);
  find_groups(p, w, groups, slots);
  resolve_rows(p, chunk, slots, groups);
  if (blockIdx.x == 0) {
    write_group_totals(p, w, slots, groups);
  }
}

__device__ __forceinline__ void recall(const DispatchParameters& p, const Watch& w,
                                       const Slots& slots, const ExpertGroups& groups) {
  say_ready(p, w);
  await_ready(p, w);
  recall_slots(p, slots);
  recall_groups(p, groups);
  if (blockIdx.x == 0) {
    repeat_group_totals(p);
  }
}

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_expert_dispatch(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: words, then stages, companions and barriers of the sending warps; where those
  // lie, the tiles lay before.
  Slots slots((u32*)shared, p.ranks);
  ExpertGroups groups((u32*)shared + Slots::ARRAYS * p.ranks + 1, p.experts, p.local_experts);
  u64 words = Slots::ARRAYS * p.ranks + 1 + 2 * (p.experts + p.local_experts) + 1;
  char* stages = shared + (words * 4 + 127) / 128 * 128;
  char* companions = stages + p.push_warps * STAGES * p.stage_bytes;
  u64* barriers = (u64*)(companions + p.push_warps * STAGES * p.companion_bytes);

  Watch w = watch_of((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt)) {
    return;
  }
  bool sends = blockIdx.x < p.push_blocks;
  Chunk chunk{0, 0};
  if (sends) {
    chunk = Chunk::of(p.tokens, blockIdx.x, (u32)p.push_blocks);
  }
  if (p.cached) {
    recall(p, w, slots, groups);
  } else {
    lay_out(p, w, chunk, slots, groups, (u32*)stages);
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
      send_tokens(p, chunk, ring, companions + warp * STAGES * p.companion_bytes, &written[warp]);
    } else if (sends && warp == p.push_warps) {
      notify(p, w, chunk, written);
      sent(p, w);
    } else {
      // Warps beside senders have time for this; rows would keep notifications waiting.
      u32 busy = (u32)p.push_warps + 1;
      u32 senders = (u32)min((u64)blockIdx.x, p.push_blocks) + (sends ? 1 : 0);
      u32 warps = blockDim.x >> 5;
      if (!sends && warp == 0) {
        sent(p, w);
      }
      mark_padding(p, groups, blockIdx.x * warps + warp - senders * busy,
                   gridDim.x * warps - (u32)p.push_blocks * busy);
    }
    if (!sends || warp <= p.push_warps) {
      receive_rows(p, w, Arrivals(p, slots));
    }
  }
  finish(p, w, true);
}
