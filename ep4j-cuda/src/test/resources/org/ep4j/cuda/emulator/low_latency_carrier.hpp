// Landing and outgoing memory of the ranks of low-latency operations, their counters, and what carries between
// them, rank by rank: the wire, or a library.
#pragma once
#include "far_end.hpp"
#if EP4J_PUT_CARRIER == 2
#include "put_library.hpp"
#else
#include "wire.hpp"
#endif

namespace emulator {

#if EP4J_PUT_CARRIER == 2
// A window of a rank: landing memory, outgoing memory, signals.
class LatencyCarrier {
 public:
  explicit LatencyCarrier(Machine& machine) : machine(machine), libraries(machine) {}

  u64 lanes() const { return 1; }

  FarEnd add(u64 landing_bytes, u64 outgoing_bytes, u64, u64 counters, u32, const std::string& name) {
    u64 begins = (landing_bytes + 127) / 128 * 128;
    u64 bytes = begins + (outgoing_bytes + 127) / 128 * 128;
    char* window = machine.memory.allocate(bytes + counters * 8, "window" + name, EVERYBODY);
    u64* words = (u64*)(window + bytes);
    std::fill_n(words, counters, 0);
    last = {};
    last.counters = words;
    last.library = libraries.add(window, bytes, (u32)counters);
    last.window = (u64)window;
    last.words = bytes;
    last.rings.rings = machine.random.between(1, 4);
    return {window, landing_bytes, window + begins, outgoing_bytes, begins, words, counters};
  }

  // Of the rank that was added last.
  FarCarrier carrier() const { return last; }

  void start(std::function<bool()> busy) { libraries.start(std::move(busy)); }

 private:
  Machine& machine;
  PutLibraries libraries;
  FarCarrier last;
};
#else
class LatencyCarrier {
 public:
  explicit LatencyCarrier(Machine& machine) : memory(machine.memory), wire(machine) {}

  u64 lanes() const { return wire.lanes_of_a_ring(); }

  FarEnd add(u64 landing_bytes, u64 outgoing_bytes, u64 landing_begins, u64 counters, u32 ranks,
             const std::string& name) {
    char* landing = memory.allocate(landing_bytes, "landing memory" + name, EVERYBODY);
    char* outgoing = memory.allocate(outgoing_bytes, "outgoing memory" + name, EVERYBODY);
    u64* words = memory.zeroed<u64>(counters, "counters" + name, EVERYBODY);
    last = {};
    last.counters = words;
    last.rings = wire.add_rings(added++, ranks, 1, name);
    wire.add({last.rings, outgoing, outgoing_bytes, landing, landing_bytes, landing_begins, words, counters});
    return {landing, landing_bytes, outgoing, outgoing_bytes, 0, words, counters};
  }

  FarCarrier carrier() const { return last; }

  void start(std::function<bool()> busy) { wire.start(std::move(busy)); }

 private:
  Memory& memory;
  CommandWire wire;
  u32 added = 0;
  FarCarrier last;
};
#endif

}  // namespace emulator
