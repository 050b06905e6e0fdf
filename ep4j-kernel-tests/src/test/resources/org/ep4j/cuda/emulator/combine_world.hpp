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
  std::shared_ptr<Handle> last;
  for (u32 left = machine.random.between(2, 5); left > 0; left--) {
    // An overflow or a refusal ends in an exception: that handle is not used again.
    if (last == nullptr || last->overflow_rank || last->routing.bad || machine.random.once_in(4)) {
      last = dispatching.dispatch();
    } else if (machine.random.once_in(3)) {
      dispatching.dispatch_again(last);
    } else {
      combining.combine(last);
    }
  }
  machine.run();
  dispatching.check_end();
}

}  // namespace emulator
