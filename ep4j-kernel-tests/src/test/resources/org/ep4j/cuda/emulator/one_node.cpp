// Worlds of one node, which run the same kernels: `one_node SEED CASES WORLD`.
#include "common/ptx.cuh"

#include "dispatch/dispatch.cu"
#include "dispatch/expert_dispatch.cu"

// Some names equal those of a dispatch; on a GPU the two are never in one program.
namespace combining {
#include "combine/combine.cu"
#include "combine/expert_combine.cu"
#include "combine/expert_pull_combine.cu"
}  // namespace combining

#include "one_node_worlds.hpp"

namespace emulator {

const Worlds worlds = {ONE_NODE_WORLDS};

}  // namespace emulator
