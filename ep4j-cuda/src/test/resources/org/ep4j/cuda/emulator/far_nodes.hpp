// Ranks of several nodes: what their kernels know of each other, of landing and outgoing memory, counters, and
// of what carries commands between them.
#pragma once
#include "routing.hpp"
#if EP4J_PUT_CARRIER == 2
#include "far_library.hpp"
#else
#include "far_proxies.hpp"
#endif

namespace emulator {

class FarNodes {
 public:
  Machine& machine;
  const World& world;
  std::vector<FarWorld*> far;
  u32* node_of;

  // Machines of ranks come first, those of what carries behind.
  static u32 streams(const World& world) { return 2 * world.ranks; }

  FarNodes(Machine& machine, const World& world, u64 least_slot_bytes)
      : machine(machine), world(world), way(machine), random(machine.random) {
    Memory& memory = machine.memory;
    node_of = memory.allocate<u32>(world.ranks, "node_of", EVERYBODY);
    for (u32 r = 0; r < world.ranks; r++) {
      node_of[r] = world.gone[r] ? NO_NODE : world.node[r];
    }
    slots = random.between(1, 6);
    slot_bytes = (least_slot_bytes + 127) / 128 * 128 * random.between(1, 3);
    stride = (world.ranks + world.experts + 4) / 2 * 2;
    for (u32 r = 0; r < world.ranks; r++) {
      partners.push_back(partners_of(r));
    }
    for (u32 r = 0; r < world.ranks; r++) {
      add_memory(r);
    }
    for (u32 r = 0; r < world.ranks; r++) {
      add_world(r);
    }
  }

  // Number of kernels that proxies serve; they end with the last.
  u32 open = 0;

  void start() {
    way.start([this] { return open > 0; });
  }

  u32 rail(u32 rank, u32 node) const {
    std::vector<u32> there = live(node);
    std::vector<u32> here = live(world.node[rank]);
    u32 place = (u32)(std::find(here.begin(), here.end(), rank) - here.begin());
    return there.empty() ? world.ranks : there[place % there.size()];
  }

  u32 partners_of_rank(u32 rank) const { return (u32)partners[rank].size(); }

  u32 near(u32 rank) const {
    return (u32)std::count(world.node.begin(), world.node.end(), world.node[rank]);
  }

  std::string way_of_slots() const { return way.text(); }

 private:
  u64 slots, slot_bytes, stride;
  std::vector<std::vector<u32>> partners;
  FarWay way;
  Random& random;

  std::vector<u32> live(u32 node) const {
    std::vector<u32> found;
    for (u32 r = 0; r < world.ranks; r++) {
      if (!world.gone[r] && world.node[r] == node) {
        found.push_back(r);
      }
    }
    return found;
  }

  std::vector<u32> partners_of(u32 rank) const {
    std::vector<u32> found;
    for (u32 other = 0; other < world.ranks && !world.gone[rank]; other++) {
      if (!world.gone[other] && world.node[other] != world.node[rank] &&
          (rail(rank, world.node[other]) == other || rail(other, world.node[rank]) == rank)) {
        found.push_back(other);
      }
    }
    return found;
  }

  u32 place(u32 rank, u32 other) const {
    const std::vector<u32>& all = partners[rank];
    return (u32)(std::find(all.begin(), all.end(), other) - all.begin());
  }

  // Landing memory: slots by partner, then words of counts by rank. Outgoing: the same, then own words.
  // Counters: arrived by partner, credits by partner, told by rank.
  u64 ring_bytes() const { return slots * slot_bytes; }
  u64 words_at(u32 rank) const { return partners[rank].size() * ring_bytes(); }
  u64 arrived_at(u32 place) const { return place * slots; }
  u64 credits_at(u32 rank, u32 place) const { return (partners[rank].size() + place) * slots; }
  u64 told_at(u32 rank) const { return 2 * partners[rank].size() * slots; }

  void add_memory(u32 r) {
    way.add(most_ring_bytes() + world.ranks * stride * 8, words_at(r) + stride * 8, most_told() + world.ranks);
  }

  // Where words of counts and their counters lie is the same on all ranks.
  u64 most_partners() const {
    size_t most = 0;
    for (auto& all : partners) {
      most = std::max(most, all.size());
    }
    return most;
  }
  u64 most_ring_bytes() const { return most_partners() * ring_bytes(); }
  u64 most_told() const { return 2 * most_partners() * slots; }

  void add_world(u32 r) {
    Memory& memory = machine.memory;
    const FarEnd& own = way.end(r);
    FarWorld* w = memory.zeroed<FarWorld>(1, "far world", (int)r);
    far.push_back(w);
    w->first = std::find(world.node.begin(), world.node.end(), world.node[r]) - world.node.begin();
    w->end = w->first + near(r);
    w->nodes = world.nodes();
    w->node = world.node[r];
    w->node_of = node_of;
    w->partners = partners[r].size();
    FarPartner* all = memory.allocate<FarPartner>(w->partners, "partners", (int)r);
    w->partner = all;
    u32* rails = memory.zeroed<u32>(w->nodes, "rail_to", (int)r);
    w->rail_to = rails;
    for (u32 q = 0; q < w->partners; q++) {
      u32 s = partners[r][q];
      u32 there = place(s, r);
      FarPartner& one = all[q];
      one.rank = s;
      one.node = world.node[s];
      one.takes = rail(r, world.node[s]) == s;
      one.gives = rail(s, world.node[r]) == r;
      if (one.takes) {
        rails[one.node] = q;
      }
      one.out_source = own.outgoing_begins + q * ring_bytes();
      one.out_target = there * ring_bytes();
      one.out = way.mapped() ? way.end(s).landing + one.out_target : own.outgoing + q * ring_bytes();
      one.in = own.landing + q * ring_bytes();
      one.arrived = own.counters + arrived_at(q);
      one.credits = own.counters + credits_at(r, q);
      one.arrived_there = arrived_at(there);
      one.credits_there = credits_at(s, there);
    }
    w->slots = slots;
    w->slot_bytes = slot_bytes;
    w->mapped = way.mapped();
    w->lanes = way.lanes();
    w->sent = memory.zeroed<u64>(w->partners, "sent", (int)r);
    w->taken = memory.zeroed<u64>(w->partners, "taken", (int)r);
    w->told = own.counters + most_told();
    w->told_there = most_told() + r;
    w->tellings = memory.zeroed<u64>(1, "tellings", (int)r);
    w->counts_out = (u64*)(own.outgoing + words_at(r));
    w->counts_source = own.outgoing_begins + words_at(r);
    w->counts_target = most_ring_bytes() + r * stride * 8;
    u64** there = memory.allocate<u64*>(world.ranks, "counts_there", (int)r);
    for (u32 s = 0; s < world.ranks; s++) {
      there[s] = (u64*)(way.end(s).landing + w->counts_target);
    }
    w->counts_there = there;
    w->counts_in = (const u64*)(own.landing + most_ring_bytes());
    w->count_stride = stride;
    w->seen = memory.zeroed<FarSeen>(2 * w->partners, "seen", (int)r);
    w->carrier = way.carrier(r, world.ranks);
  }
};

}  // namespace emulator
