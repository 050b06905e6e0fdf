// High-throughput operations with one rank that is stopped until the others have lost it: they
// continue without it, and it resumes where it stopped.
#pragma once
#include "combining.hpp"

namespace emulator {

// As StaleRankFence does. Returns whether some kernel has yet to find the fence.
bool fence(Machine& machine, Control* control, u32 lost, u32 by) {
  bool sound = control->failed == 0;
  control->fenced_by = by + 1;
  machine.moved();
  machine.run_while([&] { return control->running != 0; });
  machine.fenced(lost);
  return sound && control->failed == 0 && machine.has_waiting(lost);
}

void check_fenced(const Dispatching& dispatching, u32 lost, bool told) {
  const Record& record = *dispatching.records[lost];
  if (told) {
    expect(record.state, STATE_TIMEOUT, "state", lost);
  }
  expect(*dispatching.completed[lost], dispatching.tickets[lost], "ticket", lost);
  expect(dispatching.control(lost)->running, 0, "running", lost);
}

inline void stale_rank_fence_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  Machine machine(seed, world.ranks);
  Random& random = machine.random;
  Dispatching dispatching(machine, world);
  Combining combining(dispatching);
  u32 lost = random.below(world.ranks);
  about += world.text() + ", fenced rank " + std::to_string(lost);
  u32 by = (lost + 1) % world.ranks;
  if (world.gone[lost] || world.gone[by] || world.ranks == 1) {
    return;
  }
  operate(dispatching, combining, random.between(1, 4));
  machine.stop(lost, random.below(4));
  if (random.once_in(2)) {
    machine.put_to_sleep(lost, random.below(1u << random.between(4, 16)), 1u << random.between(10, 22), [] {});
  }
  machine.lose(lost);
  bool told = fence(machine, dispatching.control(lost), lost, by);
  dispatching.go_on_without(lost);
  machine.go_on(lost);
  if (random.once_in(2)) {
    machine.run();
  }
  operate(dispatching, combining, random.between(1, 3));
  machine.run();
  dispatching.check_end();
  check_fenced(dispatching, lost, told);
}

}  // namespace emulator
