// High-throughput operations across nodes with a rank that comes late to the last of them.
#pragma once
#include "internode_worlds.hpp"
#include "observation_world.hpp"

namespace emulator {

inline void internode_observation_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  std::vector<u32> sizes(first.between(2, 3));
  for (u32& size : sizes) {
    size = first.between(1, 3);
  }
  World world(first, sizes);
  world.lose_node(seed);
  Machine machine(seed, InternodeNodes::schedule(world));
  InternodeWorlds across(machine, world);
  about += world.text() + ", " + across.internode().transport_text();
  Dispatching dispatching(machine, world, &across);
  Combining combining(dispatching, &across);
  across.internode().start();
  observe_late_rank(dispatching, combining, false, false);
}

}  // namespace emulator
