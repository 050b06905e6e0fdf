// High-throughput combine across nodes, in one kernel: as combine.cu; in addition, a node's rows
// for tokens of other nodes return through the rail by which the tokens arrived, in slots
// (internode.cuh).
//
// Roles of a block's warps, in this order:
//   pushing    push rows to ranks of this node that own the token, or that are the rail of its owner
//   returning  take the chunks of the senders: sum, or copy, the rows pushed here for their tokens
//   notifying  one warp: sends the slots that the returning warps have filled (slot_notices.cuh)
//   summing    take the chunks of this rank: add the rows of its node and of other nodes
//   the last block to finish advances the slot numbers and ends the epoch
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread. Shared memory:
// for each pushing warp STAGES stages of stage_bytes, for each returning warp 4 pieces of 2048
// bytes, for each summing warp load_stage_bytes; barriers, row pointers, words for schedule and
// return layout.
//
// Invariant: pushing warps wait only for other ranks to enter; returning warps for rows and for
// room in slots; summing warps for rows and for slots. All warps take chunks in ascending order, so
// the lowest chunk always makes progress. Rows are added in ascending rank order.
#include "internode/internode_return.cuh"
#include "internode/internode_sum.cuh"
#include "combine/push_return_rows.cuh"

template <class T, class H>
__device__ __forceinline__ void internode_combine(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ InternodeWorld world;
  u32 warps = blockDim.x >> 5;
  Control* control = (Control*)p.peers[p.rank];
  WaitContext w = make_wait_context(control, p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  load_world(world, p.internode);
  __shared__ SlotNotice notices[MAX_FILL_WARPS];
  clear_notices(notices);
  // Shared memory: stages of pushing warps, pieces of returning warps, load stages of summing
  // warps, barriers, pointers, words.
  char* pieces = shared + p.push_warps * STAGES * p.stage_bytes;
  char* load_stages = pieces + p.return_warps * StoreStages::PIECES * StoreStages::BYTES;
  u64* barriers = (u64*)(load_stages + p.sum_warps * p.load_stage_bytes);
  u64* load_barriers = barriers + p.push_warps * STAGES;
  const char** pointers = (const char**)(load_barriers + p.sum_warps);
  u32 pointers_each = pointers_of_warp(p);
  const char** slots = pointers + pointers_each * warps;
  u32* taken = (u32*)(slots + world.nodes * warps);
  u32* schedule_words = taken + world.nodes * warps;
  u32* return_words = schedule_words + ChunkSchedule::words(world.partners);

  publish_rows_ready(p, w);
  ChunkSchedule schedule(world, schedule_words, p.tokens, p.chunk_tokens,
                  [&](u32 rank) { return matrix_row(p, ROW_TOKENS)[rank]; });
  InternodeReturnLayout return_layout(return_words, p.ranks, world);
  return_layout.fill(p, world, schedule);
  u32 warp = warp_id();
  u32 returning = warp - (u32)p.push_warps;
  u32 summing = returning - (u32)p.return_warps - 1;
  const char** rows = pointers + pointers_each * warp;
  if (warp < p.push_warps) {
    RowGroups<InternodeReturnLayout> groups(p, return_layout, w);
#if EP4J_TMA
    if (p.slot_rows == nullptr) {
      Ring ring(shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                (u32)p.stage_bytes);
      push_rows(p, w, groups, ring, 16 / T::ELEMENTS);
    } else {
      push_sums<T, H>(p, w, groups, rows);
    }
#else
    push_sums<T, H>(p, w, groups, rows);
#endif
  } else if (returning < p.return_warps) {
    char* its_pieces = pieces + returning * StoreStages::PIECES * StoreStages::BYTES;
    return_chunks(ChunkReturner<T, H>(p, world, w, return_layout, schedule, its_pieces, rows), notices[returning],
                  returning);
  } else if (returning == p.return_warps) {
    notify_slots(world, w, notices, (u32)p.return_warps);
  } else if (summing < p.sum_warps) {
    LoadStage load_stage(load_stages + summing * p.load_stage_bytes, (u32)p.load_stage_bytes, load_barriers + summing);
    ChunkReducer<T, H> summer(p, world, w, return_layout, schedule, load_stage, rows, slots + world.nodes * warp,
                        taken + world.nodes * warp);
    u32 stride = gridDim.x * (u32)p.sum_warps;
    for (u32 c = summing * gridDim.x + blockIdx.x; c < schedule.own; c += stride) {
      if (!summer.sum(c)) {
        break;
      }
    }
  }
  if (last_block(control)) {
    if (!aborted(w)) {
      schedule.advance(world, true);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      end_epoch(w, p.receipt, CombineEntrySignals{p});
    }
  }
}

namespace ep4j {

// Rows of type T that travel as H.
#define EP4J_INTERNODE_COMBINE(name, T, H)                \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    internode_combine<T, H>(p);                           \
  }

EP4J_INTERNODE_COMBINE(internode_combine_kernel_bf16, Bf16, Bf16)
EP4J_INTERNODE_COMBINE(internode_combine_kernel_fp16, Fp16, Fp16)
EP4J_INTERNODE_COMBINE(internode_combine_kernel_fp32, Fp32, Fp32)
EP4J_INTERNODE_COMBINE(internode_combine_kernel_bf16_exact, Bf16, Fp32)
EP4J_INTERNODE_COMBINE(internode_combine_kernel_fp16_exact, Fp16, Fp32)

}  // namespace ep4j
