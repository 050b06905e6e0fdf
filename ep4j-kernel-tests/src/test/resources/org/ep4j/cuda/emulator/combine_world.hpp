// Dispatches, and combines of their rows, FLAT and EXPERT_MAJOR, in FP32 and BF16, on random
// worlds.
#pragma once
#include "combining.hpp"

namespace emulator {

inline void combine_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  Machine machine(seed, world.ranks);
  about += world.text();
  Dispatching dispatching(machine, world);
  Combining combining(dispatching);
  operate(dispatching, combining, world.large() ? 2 : machine.random.between(2, 5));
  machine.run();
  dispatching.check_end();
}

}  // namespace emulator
