// What a wire between the nodes of low-latency operations has of each rank, or a library.
#pragma once
#include "low_latency_region.hpp"

#if EP4J_FAR == EP4J_FAR_PUTS
#include "low_latency_carrier.hpp"

namespace emulator {

class LatencyWire {
 public:
  LatencyWire(Machine& machine, const World& world, const LatencyRegion& at, u32 hidden,
              std::vector<char*>& far_parts)
      : machine(machine), way(machine), ranks(world.ranks) {
    Memory& memory = machine.memory;
    u64 landing_bytes = AHEAD + at.bytes;
    rows_offset = (at.source_bytes + 127) / 128 * 128;
    half_bytes = rows_offset + world.most_tokens * world.most_choices * 2 * hidden;
    u64 outgoing_bytes = AHEAD + world.ranks * 2 * half_bytes;
    first_counter = machine.random.below(5);
    u64 bound = first_counter + ranks * POST_COUNTERS;
    for (u32 r = 0; r < ranks; r++) {
      way.add(landing_bytes, outgoing_bytes, bound);
    }
    for (u32 r = 0; r < ranks; r++) {
      const FarEnd& end = way.end(r);
      far_parts[r] = end.landing + AHEAD;
      at.clear(far_parts[r]);
      at.label(memory, far_parts[r]);
      add_posts(r, end, " of rank " + std::to_string(r));
    }
  }

  const FarPosts* posts(u32 r) const { return all[r]; }
  char* shadow(u32 r) const { return all[r]->shadow; }

  void start(std::function<bool()> busy) { way.start(std::move(busy)); }

 private:
  Machine& machine;
  LatencyWay way;
  u32 ranks;
  u64 rows_offset, half_bytes, first_counter;
  std::vector<FarPosts*> all;

  void add_posts(u32 r, const FarEnd& end, const std::string& name) {
    Memory& memory = machine.memory;
    FarWorld* far = memory.zeroed<FarWorld>(1, "far world" + name, (int)r);
    far->lanes = way.lanes();
    far->carrier = way.carrier(r, ranks);
    // As after a reset: counters are what they are.
    u64* counters = end.counters + first_counter;
    u64* base = memory.allocate<u64>(ranks * POST_COUNTERS, "base" + name, (int)r);
    for (u32 i = 0; i < ranks * POST_COUNTERS; i++) {
      base[i] = counters[i] = machine.random.below(1000);
    }
    FarPosts* posts = memory.zeroed<FarPosts>(1, "posts" + name, (int)r);
    *posts = FarPosts{far,  end.outgoing + AHEAD, end.outgoing_begins + AHEAD, half_bytes, rows_offset, AHEAD,
                      counters, base, first_counter};
    all.push_back(posts);
  }
};

}  // namespace emulator
#endif
