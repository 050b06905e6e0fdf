// Worlds of one node, which run the same kernels: `one_node SEED CASES WORLD`.
#include "common/ptx.cuh"

#include "dispatch/dispatch.cu"
#include "dispatch/expert_dispatch.cu"

// Some names equal those of a dispatch; on a GPU the two are never in one program.
namespace combining {
#include "combine/combine.cu"
#include "combine/expert_combine.cu"
}  // namespace combining

#include "combine_world.hpp"
#include "dispatch_world.hpp"
#include "main.hpp"
#include "many_ranks_world.hpp"
#include "stale_rank_fence_world.hpp"
#include "timeout_attribution_world.hpp"

namespace emulator {

const Worlds worlds = {
    {"dispatch_world", dispatch_case},
    {"combine_world", combine_case},
    {"many_ranks_world", many_ranks_case},
    {"stale_rank_fence_world", stale_rank_fence_case},
    {"timeout_attribution_world", timeout_attribution_case},
};

}  // namespace emulator
