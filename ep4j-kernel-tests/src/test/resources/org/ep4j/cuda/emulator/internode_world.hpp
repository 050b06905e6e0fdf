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
  if (world.large()) {
    dispatching.blocks_of_device = 1;
  }
  Combining combining(dispatching, &across);
  if (seed % 3 == 0) {
    across.order(dispatching, combining);
  }
  std::shared_ptr<Handle> last;
  for (u32 left = world.large() ? 2 : machine.random.between(1, 5); left > 0; left--) {
    // An overflow or a refusal ends in an exception: that handle is not used again.
    if (last == nullptr || last->overflow_rank || last->routing.bad || machine.random.once_in(4)) {
      last = dispatching.dispatch();
    } else if (machine.random.once_in(3)) {
      dispatching.dispatch_again(last);
    } else {
      combining.combine(last);
    }
  }
  across.internode().start();
  machine.run();
  dispatching.check_end();
}

}  // namespace emulator
