// Counts the tokens of a routing by expert, rank and node, without a buffer.
//
// Roles: a block counts for eight neighbouring experts, ranks or nodes, and reads all choices. The
// first blocks take the experts, then the ranks, then the nodes. Budget: 512 threads a block, 512
// bytes of shared memory. Invariant: one thread writes each element of the results, so nothing has to
// be cleared before, and kernels of other streams share no word.
#include "common/ptx.cuh"
#include "structs/routing_counts_parameters.cuh"

namespace ep4j {

// Experts, ranks or nodes of a block.
constexpr u32 KEYS = 8;

constexpr u32 COUNTING_WARPS = 512 / 32;

enum class Key { EXPERT, RANK, NODE };

// No key is so large.
constexpr u32 NO_KEY = 0xffffffff;

// The key of a choice; NO_KEY if its id names no expert.
__device__ __forceinline__ u32 key_of(const RoutingCountsParameters& p, Key kind, u64 choice) {
  i64 id = p.wide_ids != 0 ? ((const i64*)p.ids)[choice] : ((const int*)p.ids)[choice];
  if (id < 0 || id >= (i64)p.experts) {
    return NO_KEY;
  }
  if (kind == Key::EXPERT) {
    return (u32)id;
  }
  u32 rank = (u32)id / (u32)p.each;
  return kind == Key::RANK ? rank : p.node_of[rank];
}

// Bit i: whether a choice of the token has the key first + i.
__device__ __forceinline__ u32 keys_of(const RoutingCountsParameters& p, Key kind, u32 first,
                                       u32 token) {
  u32 keys = 0;
#pragma unroll 8
  for (u32 k = 0; k < p.top_k; k++) {
    u32 at = key_of(p, kind, (u64)token * p.top_k + k) - first;
    keys |= at < KEYS ? 1u << at : 0;
  }
  return keys;
}

// Writes the tokens of `count` keys from `first` on; those of ranks also to `in_rank`.
__device__ __forceinline__ void count_keys(const RoutingCountsParameters& p, Key kind, u32 first,
                                           u32 keys, u32* results) {
  __shared__ u32 warps[COUNTING_WARPS][KEYS];
  u32 lane = threadIdx.x % 32;
  u32 count = min(KEYS, keys - first);
  // Lane i counts key first + i for its warp.
  u32 sum = 0;
  // All lanes take part in each step.
  for (u64 start = threadIdx.x - lane; start < p.tokens; start += 32 * COUNTING_WARPS) {
    u64 token = start + lane;
    bool exists = token < p.tokens;
    u32 mine = exists ? keys_of(p, kind, first, (u32)token) : 0;
    for (u32 i = 0; i < count; i++) {
      u32 lanes = __ballot_sync(0xffffffff, (mine >> i & 1) != 0);
      sum += is_lane(i) ? __popc(lanes) : 0;
      if (kind == Key::RANK && exists) {
        p.in_rank[token * p.ranks + first + i] = (u8)(mine >> i & 1);
      }
    }
  }
  if (lane < KEYS) {
    warps[threadIdx.x / 32][lane] = sum;
  }
  __syncthreads();
  if (threadIdx.x < count) {
    u32 total = 0;
    for (u32 w = 0; w < COUNTING_WARPS; w++) {
      total += warps[w][threadIdx.x];
    }
    results[first + threadIdx.x] = total;
  }
}

__global__ void __launch_bounds__(512)
    routing_counts_kernel(const __grid_constant__ RoutingCountsParameters p) {
  u32 block = blockIdx.x;
  u32 of_experts = ((u32)p.experts + KEYS - 1) / KEYS;
  u32 of_ranks = ((u32)p.ranks + KEYS - 1) / KEYS;
  if (block < of_experts) {
    count_keys(p, Key::EXPERT, block * KEYS, (u32)p.experts, p.per_expert);
  } else if (block < of_experts + of_ranks) {
    count_keys(p, Key::RANK, (block - of_experts) * KEYS, (u32)p.ranks, p.per_rank);
  } else {
    count_keys(p, Key::NODE, (block - of_experts - of_ranks) * KEYS, (u32)p.nodes, p.per_node);
  }
}

}  // namespace ep4j
