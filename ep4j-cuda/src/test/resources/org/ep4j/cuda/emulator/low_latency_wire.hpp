// What a wire between the nodes of low-latency operations has of each rank.
#pragma once
#include "low_latency_region.hpp"

#if EP4J_FAR == EP4J_FAR_PUTS
#include "wire.hpp"

namespace emulator {

class LatencyWire {
 public:
  LatencyWire(Machine& machine, const World& world, const LatencyRegion& at, u32 hidden,
              std::vector<char*>& far_parts)
      : machine(machine), wire(machine), ranks(world.ranks) {
    Memory& memory = machine.memory;
    u64 landing_bytes = AHEAD + at.bytes;
    rows_offset = (at.source_bytes + 127) / 128 * 128;
    half_bytes = rows_offset + world.most_tokens * world.most_choices * 2 * hidden;
    u64 outgoing_bytes = AHEAD + world.ranks * 2 * half_bytes;
    first_counter = machine.random.below(5);
    u64 bound = first_counter + ranks * POST_COUNTERS;
    for (u32 r = 0; r < ranks; r++) {
      std::string name = " of rank " + std::to_string(r);
      char* landing = memory.allocate(landing_bytes, "landing memory" + name, EVERYBODY);
      far_parts[r] = landing + AHEAD;
      at.clear(far_parts[r]);
      at.label(memory, far_parts[r]);
      outgoing.push_back(memory.allocate(outgoing_bytes, "outgoing memory" + name, EVERYBODY));
      u64* counters = memory.zeroed<u64>(bound, "counters" + name, EVERYBODY);
      CommandRings rings = wire.add_rings(r, ranks, 1, name);
      wire.add({rings, outgoing[r], outgoing_bytes, landing, landing_bytes, AHEAD, counters, bound});
      add_posts(r, rings, counters + first_counter, name);
    }
  }

  const FarPosts* posts(u32 r) const { return all[r]; }
  char* shadow(u32 r) const { return outgoing[r] + AHEAD; }

  void start(std::function<bool()> busy) { wire.start(std::move(busy)); }

 private:
  static constexpr u64 AHEAD = 4096;

  Machine& machine;
  CommandWire wire;
  u32 ranks;
  u64 rows_offset, half_bytes, first_counter;
  std::vector<char*> outgoing;
  std::vector<FarPosts*> all;

  void add_posts(u32 r, const CommandRings& rings, u64* counters, const std::string& name) {
    Memory& memory = machine.memory;
    FarWorld* far = memory.zeroed<FarWorld>(1, "far world" + name, (int)r);
    far->lanes = wire.lanes_of_a_ring();
    far->rings = rings;
    // As after a reset: counters are what they are.
    u64* base = memory.allocate<u64>(ranks * POST_COUNTERS, "base" + name, (int)r);
    for (u32 i = 0; i < ranks * POST_COUNTERS; i++) {
      base[i] = counters[i] = machine.random.below(1000);
    }
    FarPosts* posts = memory.zeroed<FarPosts>(1, "posts" + name, (int)r);
    *posts = FarPosts{far,  shadow(r), AHEAD,        half_bytes, rows_offset, AHEAD,
                      counters, base, first_counter};
    all.push_back(posts);
  }
};

}  // namespace emulator
#endif
