// High-throughput operations across nodes on random worlds.
#pragma once
#include "internode_worlds.hpp"

namespace emulator {

inline void internode_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  std::vector<u32> sizes(first.between(2, 3));
  for (u32& size : sizes) {
    size = first.between(1, 3);
  }
  if (!node_sizes.empty()) {
    sizes = node_sizes;
  }
  World world(first, sizes);
  world.lose_node(seed);
  Machine machine(seed, InternodeNodes::schedule(world));
  InternodeWorlds across(machine, world);
  about += world.text() + ", " + across.internode().transport_text();
  Dispatching dispatching(machine, world, &across);
  Combining combining(dispatching, &across);
  if (seed % 3 == 0) {
    across.order(dispatching, combining);
  }
  operate(dispatching, combining, world.large() ? 2 : machine.random.between(1, 5));
  across.internode().start();
  machine.run();
  dispatching.check_end();
}

}  // namespace emulator
