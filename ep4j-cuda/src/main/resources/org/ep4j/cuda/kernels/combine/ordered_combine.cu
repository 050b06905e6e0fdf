// High-throughput combine of EXPERT_MAJOR rows in the order of experts, within one node: the rank that
// owns a token pulls the rows of all its choices and adds them in one chain of fused multiply-adds
// (pull_expert_rows.cuh). No rank sums rows before they travel.
//
// Block 0 publishes where the rows of this rank lie; the last block to finish ends the reading and the
// epoch. All ranks must pass rows that peers can read, and this order: else no rank has sums.
// Budget: as combine.cu, whose pulls these are.
#include "combine/pull_expert_rows.cuh"

#if EP4J_TMA

template <class T>
__device__ __forceinline__ void combine_by_experts(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  publish_places(p, w);
  ReadableRows readable(shared, p.ranks);
  Decision decision = await_places(p, w, 16 / T::ELEMENTS, readable);
  if (decision == PUSH) {
    // Another rank sums in the order of ranks; the host finds that in what the ranks have called.
    refuse_places(p, w);
  } else if (decision == PULL) {
    pull_rows<T, ExpertRows>(p, w, readable, shared + p.table_bytes);
  }
  end_pulls(p, w, decision == PULL ? PULL : FAILED);
}

namespace ep4j {

#define EP4J_ORDERED_COMBINE(name, T)                     \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    combine_by_experts<T>(p);                             \
  }

EP4J_ORDERED_COMBINE(ordered_combine_kernel_bf16, Bf16)
EP4J_ORDERED_COMBINE(ordered_combine_kernel_fp16, Fp16)
EP4J_ORDERED_COMBINE(ordered_combine_kernel_fp32, Fp32)

}  // namespace ep4j

#endif
