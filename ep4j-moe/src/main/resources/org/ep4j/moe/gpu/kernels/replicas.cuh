// A replica for each choice of a logical expert, as ReplicatedPlacement.physicalRouting chooses: the n-th
// choice of an expert, in the order of tokens, goes to replica (n + rank) mod its number of replicas. No choice
// (-1) stays none.
//
// Roles: a warp takes a logical expert and reads all choices; that of expert 0 writes those that are none. Budget: 256 threads a block, no shared memory.
#pragma once
#include "common/ptx.cuh"

// ids, physical: [choices]; table: replicas of expert e from first[e] to first[e + 1].
extern "C" __global__ void __launch_bounds__(256)
    moe_replicas(const int* ids, u64 choices, u64 experts, u64 rank, const int* first, const int* table,
                 int* physical) {
  u32 warps = blockDim.x / 32;
  for (u64 e = (u64)blockIdx.x * warps + warp_id(); e < experts; e += (u64)gridDim.x * warps) {
    u32 count = (u32)(first[e + 1] - first[e]);
    u32 before = (u32)rank;
    for (u64 begin = 0; begin < choices; begin += 32) {
      u64 at = begin + lane_id();
      bool mine = at < choices && ids[at] == (int)e;
      u32 all = __ballot_sync(0xffffffff, mine);
      if (mine) {
        u32 n = before + __popc(all & ((1u << lane_id()) - 1));
        physical[at] = table[first[e] + (int)(n % count)];
      }
      if (e == 0 && at < choices && ids[at] < 0) {
        physical[at] = -1;
      }
      before += __popc(all);
    }
  }
}
