// High-throughput operations across nodes with one missing rank: the other ranks must name it.
#pragma once
#include "internode_worlds.hpp"
#include "missing_rank.hpp"

namespace emulator {

inline void internode_timeout_attribution_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  std::vector<u32> sizes(first.between(2, 3));
  for (u32& size : sizes) {
    size = first.between(1, 3);
  }
  World world(first, sizes);
  Machine machine(seed, InternodeNodes::schedule(world));
  InternodeWorlds across(machine, world);
  u32 lost = machine.random.below(world.ranks);
  about += world.text() + ", " + across.internode().transport_text() + ", missing rank " + std::to_string(lost);
  if (world.gone[lost]) {
    return;
  }
  Dispatching dispatching(machine, world, &across);
  Combining combining(dispatching, &across);
  operate(dispatching, combining, machine.random.between(1, 5));
  InternodeNodes& internode = across.internode();
  internode.start();
  MissingRank(dispatching, lost).run([&](u32 r) {
    for (u32 s = 0; s < world.ranks; s++) {
      bool there = world.gone[s] || world.node[s] == world.node[r] ||
                   internode.internode[s]->counts_published[r] > *internode.internode[r]->published_rounds;
      if (!there) {
        return false;
      }
    }
    return true;
  });
  // Proxies end with the last kernel.
  internode.open = 0;
  machine.run();
}

}  // namespace emulator
