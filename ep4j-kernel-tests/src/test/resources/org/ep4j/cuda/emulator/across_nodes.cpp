// Worlds across nodes, which run the same kernels, and those of one node, which run some of them:
// `across_nodes SEED CASES WORLD`.
#include "common/ptx.cuh"

#include "dispatch/dispatch.cu"
#include "dispatch/expert_dispatch.cu"
#include "internode/internode_dispatch.cu"
#include "internode/internode_expert_dispatch.cu"

// Some names equal those of a dispatch; on a GPU the two are never in one program.
namespace combining {
#include "combine/combine.cu"
#include "combine/expert_combine.cu"
#include "combine/expert_pull_combine.cu"
#include "internode/internode_combine.cu"
#include "internode/internode_by_experts.cu"
}  // namespace combining

#include "internode_hasty_rank_world.hpp"
#include "internode_observation_world.hpp"
#include "internode_timeout_attribution_world.hpp"
#include "internode_world.hpp"
#include "main.hpp"
#if EP4J_PUT_TRANSPORT != 2
#include "one_node_worlds.hpp"
#endif

namespace emulator {

const Worlds worlds = {
    {"internode_world", internode_case},
    {"internode_timeout_attribution_world", internode_timeout_attribution_case},
    {"internode_hasty_rank_world", internode_hasty_rank_case},
    {"internode_observation_world", internode_observation_case},
#if EP4J_PUT_TRANSPORT != 2
    ONE_NODE_WORLDS,
#endif
};

}  // namespace emulator
