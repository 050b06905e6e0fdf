// Translates the ids of a call with fewer experts than the buffer: expert i of a rank in the call is
// expert i of the buffer on that rank.
//
// Roles: one thread a choice, any number of blocks. Budget: 256 threads a block, no shared memory.
// Invariant: runs in the stream in front of the kernel of the operation that takes the ids, so
// `number` is that of the operation before; accesses memory of this rank only. Ids that do not exist
// are reported for that operation and become -1. After a failure the operation ends at once, so
// nothing is reported: the record belongs to the failure.
#include "dispatch/dispatch_parameters.cuh"
#include "structs/expert_ids_parameters.cuh"

namespace ep4j {

__global__ void __launch_bounds__(256)
    expert_ids_kernel(const __grid_constant__ ExpertIdsParameters p) {
  WaitContext w{p.control, p.record, nullptr, p.mark | (load_relaxed_system(p.number) + 1), 0};
  bool failed = load_relaxed_system(&p.control->failed) != 0;
  u64 choices = p.tokens * p.top_k;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < choices; i += (u64)gridDim.x * blockDim.x) {
    i64 id = expert_of(p, i);
    if (id >= 0 && id < (i64)p.experts) {
      u64 rank = (u64)id / p.each;
      p.to[i] = p.order[p.ranks + 1 + p.order[rank] + ((u64)id - rank * p.each)];
      continue;
    }
    p.to[i] = -1;
    if (id != -1 && !failed) {
      bad_routing(w, STATE_NO_SUCH_EXPERT, i / p.top_k, i % p.top_k, (u64)id, p.experts);
    }
  }
}

}  // namespace ep4j
