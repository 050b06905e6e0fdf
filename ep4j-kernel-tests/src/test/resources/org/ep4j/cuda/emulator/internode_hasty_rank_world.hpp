// A combine across nodes that one rank gives up at a random moment, after which its caller overwrites its
// rows. The other ranks may fail; those that do not must return the right sums.
#pragma once
#include "internode_worlds.hpp"

namespace emulator {

inline void internode_hasty_rank_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  std::vector<u32> sizes(first.between(2, 3));
  for (u32& size : sizes) {
    size = first.between(1, 3);
  }
  World world(first, sizes);
  Machine machine(seed, InternodeNodes::schedule(world));
  Random& random = machine.random;
  InternodeWorlds across(machine, world);
  about += world.text() + ", " + across.internode().transport_text();
  Dispatching dispatching(machine, world, &across);
  Combining combining(dispatching, &across);
  if (seed % 3 == 0) {
    across.order(dispatching, combining);
  }
  auto handle = dispatching.dispatch();
  if (handle->overflow_rank || handle->routing.bad) {
    return;
  }
  combining.combine(handle);
  u32 hasty = random.below(world.ranks);
  about += ", hasty rank " + std::to_string(hasty);
  across.internode().start();
  auto some_run = [&] {
    for (u32 r = 0; r < world.ranks; r++) {
      if (!world.gone[r] && !machine.is_idle(r)) {
        return true;
      }
    }
    return false;
  };
  auto pass = [&](u64 steps) {
    u64 end = machine.steps + steps;
    machine.run_while([&] { return machine.steps < end && some_run(); });
  };
  // Until its dispatch has ended, and then some steps of its combine.
  machine.run_while([&] { return machine.waiting(hasty) > 0 && some_run(); });
  pass(random.below(1u << random.between(4, 16)));
  machine.skip(hasty);
  // Those that do not need it end; the others, also in later passes of columns, give up.
  for (u64 steps = 1u << 19; some_run(); steps = 1u << 16) {
    pass(steps);
    for (u32 r = 0; r < world.ranks; r++) {
      machine.skip(r);
    }
  }
  for (u32 r = 0; r < world.ranks; r++) {
    expect(*dispatching.completed[r], world.gone[r] ? 0 : dispatching.tickets[r], "ticket", r);
  }
  // Proxies end with the last kernel.
  across.internode().open = 0;
  machine.run();
}

}  // namespace emulator
