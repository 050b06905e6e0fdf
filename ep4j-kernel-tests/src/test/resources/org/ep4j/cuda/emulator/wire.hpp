// A wire between ranks, and the host threads that drive it: they read the rings of commands and
// execute them late, in parts and in any order that lanes allow.
#pragma once
#include "machine.hpp"

namespace emulator {

// A rank's state on the wire: its commands, and the memory that they refer to.
struct WireEnd {
  CommandRings rings;
  char* outgoing;
  u64 outgoing_bytes;
  char* incoming;
  u64 incoming_bytes;
  u64 incoming_begins;  // nothing arrives before it
  u64* counters;
  u64 counters_bound;
  bool lost = false;  // nothing is sent to or received from that rank any more
};

class CommandWire {
 public:
  explicit CommandWire(Machine& machine) : machine(machine), random(machine.random) {
    threads = random.between(1, 3);
    lanes = random.between(1, 3);
    rings = threads * random.between(1, 2);
    capacity = 64u << random.below(2);
  }

  u32 lanes_per_ring() const { return lanes; }

  // Rings of a rank, empty. `flush_counters`: number of counters that flushes may name.
  CommandRings add_rings(u32 r, u32 ranks, u32 flush_counters, const std::string& name) {
    Memory& memory = machine.memory;
    CommandRings made{};
    made.rings = rings;
    made.capacity = capacity;
    made.commands = memory.zeroed<u64>(rings * capacity * 2, "commands" + name, EVERYBODY);
    made.tails = memory.zeroed<u64>(rings * TAIL_WORDS, "tails" + name, EVERYBODY);
    made.control = memory.zeroed<RingControl>(rings, "ring control" + name, (int)r);
    made.records = memory.zeroed<RingRecord>(rings, "ring records" + name, EVERYBODY);
    made.failures = memory.zeroed<u64>(ranks, "failures" + name, EVERYBODY);
    made.flush_counters = memory.zeroed<u64>(flush_counters, "flush counters" + name, EVERYBODY);
    return made;
  }

  void add(const WireEnd& end) { ends.push_back(end); }

  // From now on the process of a rank that sleeps is stopped: it sends nothing, and takes nothing from the
  // wire, where commands for it wait.
  void stop_with_ranks() { stops = true; }

  // Runs the host threads of each rank on streams behind those of the GPUs, as long as `busy`.
  void start(std::function<bool()> busy) {
    for (u32 r = 0; r < ends.size(); r++) {
      queues.emplace_back(threads);
      machine.enqueue((u32)ends.size() + r, {"proxy", 1, 32, 0, [=, this] { drive(r, busy); }, {}});
    }
  }

  // Reports to all other ranks that a rank is lost.
  void lose(u32 rank) {
    ends[rank].lost = true;
    for (u32 r = 0; r < ends.size(); r++) {
      ((u64*)ends[r].rings.failures)[rank] = r != rank;
    }
    machine.moved();
  }

 private:
  struct Pending {
    Command command;
    bool started;
  };

  Machine& machine;
  Random& random;
  u32 threads, lanes;
  u64 rings, capacity;
  bool stops = false;
  std::vector<WireEnd> ends;
  std::vector<std::vector<std::vector<Pending>>> queues;  // [rank][thread]

  void drive(u32 r, const std::function<bool()>& busy) {
    u32 self = threadIdx.x;
    std::vector<u64> next(rings);
    while (self < threads) {
      bool goes_on = busy();
      bool found = false;
      if (is_stopped(r)) {
        if (!goes_on) {
          return;
        }
        yield_fiber();
        continue;
      }
      for (u64 ring = self; ring < rings; ring += threads) {
        found |= read_some(r, ring, next[ring], queues[r][self]);
      }
      carry_some(r, queues[r][self]);
      if (!goes_on && !found && is_done(queues[r][self])) {
        return;
      }
      yield_fiber();
    }
  }

  bool is_stopped(u32 r) const { return stops && machine.is_asleep(r); }

  // What a dead rank does not take stays.
  bool is_done(const std::vector<Pending>& queue) const {
    return std::all_of(queue.begin(), queue.end(), [&](const Pending& pending) {
      return stops && machine.is_dead(peer_of(pending.command));
    });
  }

  bool read_some(u32 r, u64 ring, u64& next, std::vector<Pending>& queue) {
    const CommandRings& from = ends[r].rings;
    u64 begin = next;
    u32 largest = random.below(40);
    while (next - begin < largest) {
      u64* at = from.commands + (ring * capacity + next % capacity) * 2;
      u64 lap = next / capacity % 2 == 0 ? COMMAND_LAP : 0;
      Command command{load_acquire_system(at), load_acquire_system(at + 1)};
      if ((command.first & COMMAND_LAP) != lap || (command.second & COMMAND_LAP) != lap) {
        break;
      }
      queue.push_back({{command.first & ~COMMAND_LAP, command.second & ~COMMAND_LAP}, false});
      next++;
    }
    if (next != begin) {
      store_release_system((u64*)from.tails + ring * TAIL_WORDS, next);
    }
    return next != begin || largest == 0;
  }

  static u32 peer_of(const Command& c) { return (u32)(c.second >> DESTINATION_SHIFT & 0xfff); }
  static u32 lane_of(const Command& c) { return (u32)(c.first >> LANE_SHIFT & 0xff); }
  static bool puts(const Command& c) { return (c.first >> OPERATION_SHIFT & 7) == COMMAND_PUT; }
  static bool adds(const Command& c) { return (c.first >> OPERATION_SHIFT & 7) == COMMAND_ADD; }
  static u64 counter_of(const Command& c) { return c.second >> COUNTER_SHIFT & NO_COUNTER; }

  // Puts may overtake; adds and flushes may not.
  void carry_some(u32 r, std::vector<Pending>& queue) {
    for (u32 steps = random.below(12); steps > 0 && !queue.empty(); steps--) {
      u32 i = random.once_in(2) ? 0 : random.below((u32)queue.size());
      Pending& pending = queue[i];
      Command command = pending.command;
      if (is_stopped(peer_of(command))) {
        continue;
      }
      bool first = true;
      for (u32 j = 0; j < i && !puts(command); j++) {
        first = first && (peer_of(queue[j].command) != peer_of(command) ||
                          lane_of(queue[j].command) != lane_of(command));
      }
      if (!first) {
        continue;
      }
      if (ends[peer_of(command)].lost) {
        // The command is dropped.
      } else if (adds(command)) {
        grow(r, command, (u32)command.first | (u64)(u32)command.second << 32);
      } else if (!puts(command)) {
        u64* flush_counter = (u64*)ends[r].rings.flush_counters + counter_of(command);
        store_release_system(flush_counter, *flush_counter + 1);
      } else if (!put(r, command, pending)) {
        continue;
      }
      queue.erase(queue.begin() + i);
    }
  }

  // Copies one half first, the other some time later.
  bool put(u32 r, const Command& command, Pending& pending) {
    const WireEnd& to_end = ends[peer_of(command)];
    u64 source = (u64)(u32)command.first * COMMAND_UNIT;
    u64 target = (u64)(u32)command.second * COMMAND_UNIT;
    u64 bytes = (command.first >> LENGTH_SHIFT & 0xfffff) * COMMAND_UNIT;
    if (source + bytes > ends[r].outgoing_bytes || target < to_end.incoming_begins ||
        target + bytes > to_end.incoming_bytes) {
      fail("rank %u: a put of %llu bytes from %llu to %llu of rank %u", r, bytes, source, target,
           peer_of(command));
    }
    machine.check_writer(r, to_end.incoming + target);
    u64 half = bytes / 2 / COMMAND_UNIT * COMMAND_UNIT;
    u64 from = pending.started ? half : 0;
    u64 to = pending.started ? bytes : half;
    std::memcpy(to_end.incoming + target + from, ends[r].outgoing + source + from, to - from);
    machine.moved();
    if (!pending.started) {
      pending.started = true;
      return false;
    }
    if (counter_of(command) != NO_COUNTER) {
      grow(r, command, 1);
    }
    return true;
  }

  void grow(u32 r, const Command& command, u64 value) {
    const WireEnd& end = ends[peer_of(command)];
    u64 number = counter_of(command);
    if (number >= end.counters_bound) {
      fail("rank %u: counter %llu of rank %u", r, number, peer_of(command));
    }
    store_release_system(end.counters + number, end.counters[number] + value);
  }
};

}  // namespace emulator
