// Worlds across nodes, which run the same kernels: `across_nodes SEED CASES WORLD`.
#include "common/ptx.cuh"

#include "dispatch/dispatch.cu"
#include "dispatch/expert_dispatch.cu"
#include "internode/internode_dispatch.cu"
#include "internode/internode_expert_dispatch.cu"

// Some names equal those of a dispatch; on a GPU the two are never in one program.
namespace combining {
#include "combine/combine.cu"
#include "combine/expert_combine.cu"
#include "internode/internode_combine.cu"
}  // namespace combining

#include "internode_timeout_attribution_world.hpp"
#include "internode_world.hpp"
#include "main.hpp"

namespace emulator {

const Worlds worlds = {
    {"internode_world", internode_case},
    {"internode_timeout_attribution_world", internode_timeout_attribution_case},
};

}  // namespace emulator
