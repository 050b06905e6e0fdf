// High-throughput operations with one missing rank: the other ranks must name it.
// `timeout_attribution_world SEED CASES`.
#include "common/ptx.cuh"

#include "dispatch/dispatch.cu"
#include "dispatch/expert_dispatch.cu"

// Some names equal those of a dispatch; on a GPU the two are never in one program.
namespace combining {
#include "combine/combine.cu"
#include "combine/expert_combine.cu"
}  // namespace combining

#include "missing_rank.hpp"
#include "combining.hpp"
#include "main.hpp"

namespace emulator {

void run_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  Machine machine(seed, world.ranks);
  Dispatching dispatching(machine, world);
  Combining combining(dispatching);
  u32 lost = machine.random.below(world.ranks);
  about += world.text() + ", missing rank " + std::to_string(lost);
  if (world.gone[lost]) {
    return;
  }
  operate(dispatching, combining, machine.random.between(1, 5));
  MissingRank(dispatching, lost).run([](u32) { return true; });
}

}  // namespace emulator
