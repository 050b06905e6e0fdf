// Landing and outgoing memory of the ranks of low-latency operations, their counters, and the
// carrier between them: a library as for high throughput, or a wire, which here carries more kinds
// of commands.
#pragma once
#include "internode_endpoint.hpp"
#if EP4J_PUT_TRANSPORT == 2
#include "internode_library.hpp"
#else
#include "wire.hpp"
#endif

namespace emulator {

// Bytes in front of the operations' landing and outgoing memory: nothing arrives there.
constexpr u64 AHEAD = 4096;

#if EP4J_PUT_TRANSPORT == 2
using LowLatencyTransport = EmulatedTransport;
#else
// The counterpart of EmulatedTransport for low latency.
class LowLatencyTransport {
 public:
  explicit LowLatencyTransport(Machine& machine) : memory(machine.memory), wire(machine) {}

  u64 lanes() const { return wire.lanes_per_ring(); }

  void add(u64 incoming_bytes, u64 outgoing_bytes, u64 counters) {
    std::string name = " of rank " + std::to_string(ends.size());
    char* incoming = memory.allocate(incoming_bytes, "landing memory" + name, EVERYBODY);
    char* outgoing = memory.allocate(outgoing_bytes, "outgoing memory" + name, EVERYBODY);
    u64* words = memory.zeroed<u64>(counters, "counters" + name, EVERYBODY);
    ends.push_back({incoming, incoming_bytes, outgoing, outgoing_bytes, 0, words, counters});
  }

  const InternodeEndpoint& end(u32 r) const { return ends[r]; }

  // Once a rank, in rank order.
  InternodeTransport describe(u32 r, u32 ranks) {
    const InternodeEndpoint& end = ends[r];
    InternodeTransport made{};
    made.counters = end.counters;
    made.rings = wire.add_rings(r, ranks, 1, " of rank " + std::to_string(r));
    wire.add({made.rings, end.outgoing, end.outgoing_bytes, end.incoming, end.incoming_bytes, AHEAD, end.counters,
              end.counter_count});
    return made;
  }

  void start(std::function<bool()> busy) { wire.start(std::move(busy)); }

  void stop_with_ranks() { wire.stop_with_ranks(); }

  void lose(u32 rank) { wire.lose(rank); }

 private:
  Memory& memory;
  CommandWire wire;
  std::vector<InternodeEndpoint> ends;
};
#endif

}  // namespace emulator
