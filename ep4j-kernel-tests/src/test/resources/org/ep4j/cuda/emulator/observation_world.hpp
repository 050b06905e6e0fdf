// High-throughput operations of one node with a rank that comes late to the last of them.
#pragma once
#include "combining.hpp"
#include "observed_waits.hpp"

namespace emulator {

// `all_wait`: whether each rank waits for each other one in a new dispatch, in a cached one.
inline void observe_late_rank(Dispatching& dispatching, Combining& combining, bool cached_waits, bool combines_wait) {
  Machine& machine = dispatching.machine;
  const World& world = dispatching.world;
  ObservedWaits observed(machine, world.ranks);
  for (u32 r = 0; r < world.ranks; r++) {
    if (!world.gone[r]) {
      observed.add(r, dispatching.control(r), world.locals[r]);
    }
  }
  u32 late = machine.random.below(world.ranks);
  about += ", late rank " + std::to_string(late);
  if (world.gone[late]) {
    return;
  }
  u32 launches = 0;
  auto handle = dispatching.dispatch();
  bool again = false;
  bool all_wait = true;
  if (!handle->overflow_rank && !handle->routing.bad && !machine.random.once_in(3)) {
    launches = machine.waiting(late);
    again = machine.random.once_in(2);
    if (again) {
      dispatching.dispatch_again(handle);
      all_wait = cached_waits;
    } else {
      combining.combine(handle);
      // FLAT rows that are pushed: a rank waits for those that it has rows for.
      all_wait = combines_wait && handle->by_experts;
    }
  }
  machine.stop(late, launches);
  observed.run(late);
  observed.check(late, all_wait);
  for (u32 r = 0; r < world.ranks; r++) {
    for (u32 l = 0; !world.gone[r] && l < world.locals[r]; l++) {
      u64 received = handle->parameters[r].received[l];
      expect(observed.tokens(r, l), received * (again ? 2 : 1), "tokens of expert", r, l);
    }
  }
  dispatching.check_end();
}

inline void observation_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  Machine machine(seed, world.ranks);
  about += world.text();
  Dispatching dispatching(machine, world);
  Combining combining(dispatching);
  observe_late_rank(dispatching, combining, true, true);
}

}  // namespace emulator
