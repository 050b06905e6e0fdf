// High-throughput dispatches, FLAT and EXPERT_MAJOR, new and cached, on random worlds.
#pragma once
#include "dispatching.hpp"

namespace emulator {

inline void dispatch_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  Machine machine(seed, world.ranks);
  about += world.text();
  Dispatching dispatching(machine, world);
  std::shared_ptr<Handle> last;
  for (u32 left = machine.random.between(1, world.large() ? 2 : 3); left > 0; left--) {
    // An overflow or a refusal ends in an exception: that handle is not used again.
    if (last != nullptr && !last->overflow_rank && !last->routing.bad && machine.random.once_in(2)) {
      dispatching.dispatch_again(last);
    } else {
      last = dispatching.dispatch();
    }
  }
  machine.run();
  dispatching.check_end();
}

}  // namespace emulator
