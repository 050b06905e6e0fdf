// High-throughput combine of EXPERT_MAJOR rows by pull, within one node: the rank that owns a token
// reads the rows of all its choices where their holders keep them, and adds them (pull_expert_rows.cuh)
//   by_experts   in the order of experts, in which no rank may sum before rows travel
//   by_ranks     in the order of ranks: where a rank holds few rows of a token, each row is read once,
//                where a push reads it, writes the sum into the return buffer, fences, and reads that
//
// Block 0 publishes where the rows of this rank lie; the last block to finish ends the reading and the
// epoch. All ranks pull: beside a rank that pushes, those that pull fail.
// Budget: as combine.cu, whose pulls these are; by ranks each vector of sums has a second one.
#include "combine/pull_expert_rows.cuh"

#if EP4J_TMA

template <class T, Addition ORDER>
__device__ __forceinline__ void pull_experts(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  publish_places(p, w);
  ReadableRows readable(shared, p.ranks);
  Decision decision = await_places(p, w, 16 / T::ELEMENTS, readable);
  if (decision == PUSH) {
    // Another rank pushes: it sums in another order. The host finds that in what the ranks have called.
    refuse_places(p, w);
  } else if (decision == PULL) {
    pull_rows<T, ExpertRows<ORDER>>(p, w, readable, shared + p.table_bytes);
  }
  end_pulls(p, w, decision == PULL ? PULL : FAILED);
}

namespace ep4j {

#define EP4J_EXPERT_PULL(name, T, ORDER)                  \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    pull_experts<T, ORDER>(p);                            \
  }

EP4J_EXPERT_PULL(pull_by_experts_kernel_bf16, Bf16, FUSED)
EP4J_EXPERT_PULL(pull_by_experts_kernel_fp16, Fp16, FUSED)
EP4J_EXPERT_PULL(pull_by_experts_kernel_fp32, Fp32, FUSED)
EP4J_EXPERT_PULL(pull_by_ranks_kernel_bf16, Bf16, BY_RANKS)
EP4J_EXPERT_PULL(pull_by_ranks_kernel_fp16, Fp16, BY_RANKS)
EP4J_EXPERT_PULL(pull_by_ranks_kernel_fp32, Fp32, BY_RANKS)

}  // namespace ep4j

#endif
