// The state of each rank on a wire, or in a library, between the nodes of low-latency operations.
#pragma once
#include "low_latency_region.hpp"

#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
#include "low_latency_transport.hpp"

namespace emulator {

class LatencyWire {
 public:
  LatencyWire(Machine& machine, const World& world, const LatencyRegion& at, u32 hidden,
              std::vector<char*>& internode_parts)
      : machine(machine), transport(machine), ranks(world.ranks) {
    Memory& memory = machine.memory;
    u64 incoming_bytes = AHEAD + at.internode_bytes;
    rows_offset = (at.source_bytes + 127) / 128 * 128;
    half_bytes = rows_offset + world.max_tokens * world.max_choices * 2 * hidden;
    u64 outgoing_bytes = AHEAD + world.ranks * 2 * half_bytes;
    first_counter = machine.random.below(5);
    u64 bound = first_counter + ranks * COUNTERS_PER_RANK;
    for (u32 r = 0; r < ranks; r++) {
      transport.add(incoming_bytes, outgoing_bytes, bound);
    }
    for (u32 r = 0; r < ranks; r++) {
      const InternodeEndpoint& end = transport.end(r);
      internode_parts[r] = end.incoming + AHEAD;
      at.prepare_internode(memory, internode_parts[r]);
      add_puts(r, end, " of rank " + std::to_string(r));
    }
  }

  const LowLatencyPuts* puts(u32 r) const { return all[r]; }
  char* staging(u32 r) const { return all[r]->staging; }

  void start(std::function<bool()> busy) { transport.start(std::move(busy)); }

#if EP4J_PUT_TRANSPORT != 2
  void stop_with_ranks() { transport.stop_with_ranks(); }

  void lose(u32 rank) { transport.lose(rank); }
#endif

 private:
  Machine& machine;
  LowLatencyTransport transport;
  u32 ranks;
  u64 rows_offset, half_bytes, first_counter;
  std::vector<LowLatencyPuts*> all;

  void add_puts(u32 r, const InternodeEndpoint& end, const std::string& name) {
    Memory& memory = machine.memory;
    InternodeWorld* internode_world = memory.zeroed<InternodeWorld>(1, "internode world" + name, (int)r);
    internode_world->lanes = transport.lanes();
    internode_world->transport = transport.describe(r, ranks);
    // As after a reset: counters have arbitrary values.
    u64* counters = end.counters + first_counter;
    u64* base = memory.allocate<u64>(ranks * COUNTERS_PER_RANK, "base" + name, (int)r);
    for (u32 i = 0; i < ranks * COUNTERS_PER_RANK; i++) {
      base[i] = counters[i] = machine.random.below(1000);
    }
    LowLatencyPuts* puts = memory.zeroed<LowLatencyPuts>(1, "puts" + name, (int)r);
    *puts = LowLatencyPuts{internode_world,  end.outgoing + AHEAD, end.outgoing_begins + AHEAD, half_bytes, rows_offset, AHEAD,
                      counters, base, first_counter};
    all.push_back(puts);
  }
};

}  // namespace emulator
#endif
