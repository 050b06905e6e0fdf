// Counts of a routing, without sending.
//
// Roles: one thread a token, any number of blocks; atomics on global counters. Budget: 256 threads
// a block, no dynamic shared memory. Invariant: the host clears the counters and `claimed` of the
// control words before the launch; each token is counted once for each of its ranks and once for
// each of its nodes.
#include "dispatch/layout.cuh"
#include "structs/layout_parameters.cuh"

namespace ep4j {

__global__ void __launch_bounds__(256)
    layout_kernel(const __grid_constant__ LayoutParameters p) {
  WaitContext w = make_wait_context(p.control, p.record, nullptr, 0);
  for (u32 token = blockIdx.x * blockDim.x + threadIdx.x; token < p.tokens;
       token += gridDim.x * blockDim.x) {
    u8* row = p.in_rank + (u64)token * p.ranks;
    for (u32 k = 0; k < p.top_k; k++) {
      i64 id = checked_expert(p, w, token, k);
      if (id >= 0 && p.placement[id] >> 16 < p.ranks) {
        u32 rank = p.placement[id] >> 16;
        atomicAdd(&p.per_expert[id], 1);
        if (row[rank] == 0) {
          row[rank] = 1;
          atomicAdd(&p.per_rank[rank], 1);
        }
      }
    }
    // Ranks of a node have consecutive numbers.
    u32 last = ~0u;
    for (u32 r = 0; r < p.ranks; r++) {
      u32 node = p.node_of == nullptr ? 0 : p.node_of[r];
      if (row[r] != 0 && node != last) {
        atomicAdd(&p.per_node[node], 1);
        last = node;
      }
    }
  }
}

}  // namespace ep4j
