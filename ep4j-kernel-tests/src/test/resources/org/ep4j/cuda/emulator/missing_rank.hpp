// One rank does not launch what the others do. Time passes for the others only once they have all
// entered what they run, so that no other rank is missing, except in operations after their own
// failure. Needs the kernels' parameters, which a world includes before.
#pragma once
#include "dispatching.hpp"

namespace emulator {

class MissingRank {
 public:
  MissingRank(Dispatching& dispatching, u32 lost)
      : dispatching(dispatching), machine(dispatching.machine), world(dispatching.world), lost(lost) {}

  // After all operations have been enqueued. `told(r)`: its counts have reached ranks of other
  // nodes.
  void run(const std::function<bool(u32)>& told) {
    machine.stop(lost, machine.random.below(machine.waiting(lost)));
    while (others_run()) {
      pass(machine.random.between(1, 1u << machine.random.between(8, 14)));
      if (is_attributed(told)) {
        for (u32 r = 0; r < world.ranks; r++) {
          if (r != lost) {
            machine.skip(r);
          }
        }
      }
    }
    for (u32 r = 0; r < world.ranks; r++) {
      if (is_other(r)) {
        check_end(r);
      }
    }
  }

 private:
  Dispatching& dispatching;
  Machine& machine;
  const World& world;
  u32 lost;

  bool is_other(u32 r) const { return r != lost && !world.gone[r]; }

  bool others_run() const {
    for (u32 r = 0; r < world.ranks; r++) {
      if (is_other(r) && !machine.is_idle(r)) {
        return true;
      }
    }
    return false;
  }

  void pass(u64 steps) {
    u64 end = machine.steps + steps;
    machine.run_while([&] {
      for (u32 r = 0; r < world.ranks; r++) {
        check_name(r);
      }
      return machine.steps < end && others_run();
    });
  }

  bool is_attributed(const std::function<bool(u32)>& told) const {
    for (u32 r = 0; r < world.ranks; r++) {
      bool attributed_epoch = machine.is_idle(r) || (r != lost && dispatching.control(r)->epoch >= dispatching.control(lost)->epoch &&
                                            has_entered(r, told));
      if (!attributed_epoch) {
        return false;
      }
    }
    return true;
  }

  u64 running(u32 r) const { return dispatching.control(r)->epoch + 1; }

  // Whether all other ranks see that a rank has entered its operation.
  bool has_entered(u32 r, const std::function<bool(u32)>& told) const {
    for (u32 s = 0; s < world.ranks; s++) {
      if (dispatching.peers[r][s] == nullptr) {
        continue;
      }
      const char* region = dispatching.regions[s];
      u64 ready = ((const u64*)(region + dispatching.at.ready))[r];
      u64 counts = ((const u64*)(region + dispatching.at.counts))[r * (world.ranks + world.experts + 3)];
      if (ready < running(r) && !(counts >> 32 == running(r) && told(r))) {
        return false;
      }
    }
    return true;
  }

  // Counts reach all ranks; `ready` reaches only ranks of the same node.
  bool must_name(u32 r) const {
    const std::string& missing = machine.next(lost);
    bool counts = missing.find("dispatch") != std::string::npos && missing.find("cached") == std::string::npos;
    return is_other(r) && (counts || world.node[r] == world.node[lost]);
  }

  // Must hold for every record that the host sees, at any time.
  void check_name(u32 r) const {
    const Record& record = *dispatching.records[r];
    bool visible = record.state == STATE_TIMEOUT && record.attributed_epoch == record.epoch;
    if (visible && must_name(r)) {
      expect(record.peer, lost, "named rank", r);
      expect(record.phase, PHASE_ENTER, "phase", r);
    }
  }

  void check_end(u32 r) const {
    check_name(r);
    bool failed = dispatching.control(r)->failed != 0;
    if (machine.next(lost).find("dispatch") != std::string::npos) {
      expect(failed, true, "failed", r);
    }
    if (failed) {
      expect(dispatching.records[r]->state, STATE_TIMEOUT, "state", r);
      expect(dispatching.records[r]->attributed_epoch, dispatching.records[r]->epoch, "settled epoch", r);
    }
    expect(*dispatching.completed[r], dispatching.tickets[r], "ticket", r);
  }
};

}  // namespace emulator
