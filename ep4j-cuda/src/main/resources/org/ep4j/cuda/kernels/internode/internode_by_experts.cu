// High-throughput combine of EXPERT_MAJOR rows across nodes in the order of experts, in one kernel. No rank and no
// node may sum rows before they travel, and none needs a return buffer: rows are read where their holders keep
// them, by the source of a token in their own node, else by the rail through which the token arrived, which
// sends them on in slots (internode.cuh).
//
// Roles of a block's warps, in this order:
//   returning  take the chunks of the senders: copy the rows of their tokens (return_expert_rows.cuh)
//   notifying  one warp: sends the slots that the returning warps have filled (slot_notices.cuh)
//   summing    take the chunks of this rank: add the rows of each token (sum_expert_rows.cuh)
//   the last block to finish advances the slot numbers, ends the reading (row_places.cuh) and the epoch
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread. Shared memory: for each
// returning warp 4 pieces of 2048 bytes, for each summing warp load_stage_bytes, a barrier, the rows of a
// token with their weights, and a slot for each node; the rows of all ranks; words of the schedule.
//
// Invariant: once all ranks of the node have entered, returning warps wait for room in slots alone, and summing
// warps for slots alone. All warps take chunks in ascending order, so the lowest chunk always makes progress.
#include "internode/sum_expert_rows.cuh"

#if EP4J_TMA

// The roles; all threads, once the rows of all ranks of the node can be read. `shared` is the block's dynamic
// shared memory, from `table` on that of the rows and the schedule.
template <class T>
__device__ __forceinline__ void return_and_sum(const CombineParameters& p, const InternodeWorld& world, const WaitContext& w,
                                               const ReadableRows& readable, const ChunkSchedule& schedule,
                                               SlotNotice* notices, char* shared) {
  constexpr u32 LIST = ExpertChunkReducer<T>::LIST_BYTES;
  char* load_stages = shared + p.return_warps * StoreStages::PIECES * StoreStages::BYTES;
  u64* barriers = (u64*)(load_stages + p.sum_warps * p.load_stage_bytes);
  char* lists = (char*)(barriers + p.sum_warps);
  const char** slots = (const char**)(lists + p.sum_warps * LIST);
  u32* taken = (u32*)(slots + p.sum_warps * world.nodes);
  u32 warp = warp_id();
  u32 summing = warp - (u32)p.return_warps - 1;
  if (warp < p.return_warps) {
    char* pieces = shared + warp * StoreStages::PIECES * StoreStages::BYTES;
    return_chunks(ExpertRowReturner<T>(p, world, w, readable, schedule, pieces), notices[warp], warp);
  } else if (warp == p.return_warps) {
    notify_slots(world, w, notices, (u32)p.return_warps, HeldRows{p, world, w});
  } else if (summing < p.sum_warps) {
    LoadStage load_stage(load_stages + summing * p.load_stage_bytes, (u32)p.load_stage_bytes, barriers + summing);
    ExpertChunkReducer<T> reducer(p, world, w, readable, schedule, load_stage, (const char**)(lists + summing * LIST),
                                  slots + world.nodes * summing, taken + world.nodes * summing);
    // Rows of this node were written by other kernels, and bulk loads read them.
    fence_proxy();
    u32 stride = gridDim.x * (u32)p.sum_warps;
    for (u32 c = summing * gridDim.x + blockIdx.x; c < schedule.own; c += stride) {
      if (!reducer.sum(c, blockIdx.x == 0 && summing == 0)) {
        break;
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void combine_by_experts(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ InternodeWorld world;
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  load_world(world, p.internode);
  __shared__ SlotNotice notices[MAX_FILL_WARPS];
  clear_notices(notices);
  // The table of rows and the words of the schedule come first.
  u32* schedule_words = (u32*)(shared + 2 * p.ranks * sizeof(char*));
  u64 words = schedule_words - (u32*)shared + ChunkSchedule::words(world.partners);
  publish_places(p, w);
  ChunkSchedule schedule(world, schedule_words, p.tokens, p.chunk_tokens,
                         [&](u32 rank) { return matrix_row(p, ROW_TOKENS)[rank]; });
  ReadableRows readable(shared, p.ranks);
  Decision decision = await_places(p, w, 16 / T::ELEMENTS, readable);
  if (decision == PUSH) {
    // Another rank combines in another order: the host finds that in what the ranks have called.
    refuse_places(p, w);
  } else if (decision == PULL) {
    return_and_sum<T>(p, world, w, readable, schedule, notices, shared + (words * 4 + 127) / 128 * 128);
  }
  if (last_block(w.control)) {
    if (decision == PULL) {
      if (!aborted(w)) {
        schedule.advance(world, true);
      }
      end_reading(p, w, true);
    }
    if (aborted(w)) {
      withdraw_rows(p);
    }
    if (threadIdx.x < 32) {
      end_epoch(w, p.receipt, CombineEntrySignals{p});
    }
  }
}

namespace ep4j {

#define EP4J_INTERNODE_BY_EXPERTS(name, T)                \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    combine_by_experts<T>(p);                             \
  }

EP4J_INTERNODE_BY_EXPERTS(internode_by_experts_kernel_bf16, Bf16)
EP4J_INTERNODE_BY_EXPERTS(internode_by_experts_kernel_fp16, Fp16)
EP4J_INTERNODE_BY_EXPERTS(internode_by_experts_kernel_fp32, Fp32)

}  // namespace ep4j

#endif
