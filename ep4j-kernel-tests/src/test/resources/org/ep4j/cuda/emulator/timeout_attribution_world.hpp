// High-throughput operations with one missing rank: the other ranks must name it.
#pragma once
#include "combining.hpp"
#include "missing_rank.hpp"

namespace emulator {

inline void timeout_attribution_case(u64 seed) {
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
