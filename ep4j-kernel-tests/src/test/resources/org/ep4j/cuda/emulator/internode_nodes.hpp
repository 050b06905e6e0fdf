// Ranks of several nodes: what their kernels know of each other, landing and outgoing memory,
// counters, and the carrier of commands between them.
#pragma once
#include "routing.hpp"
#if EP4J_PUT_TRANSPORT == 2
#include "internode_library.hpp"
#else
#include "internode_proxies.hpp"
#endif

namespace emulator {

class InternodeNodes {
 public:
  Machine& machine;
  const World& world;
  std::vector<InternodeWorld*> internode;
  u32* node_of;

  // The first streams are those of ranks, followed by those of carriers.
  static u32 schedule(const World& world) { return 2 * world.ranks; }

  InternodeNodes(Machine& machine, const World& world, u64 min_slot_bytes)
      : machine(machine), world(world), transport(machine), random(machine.random) {
    Memory& memory = machine.memory;
    node_of = memory.allocate<u32>(world.ranks, "node_of", EVERYBODY);
    for (u32 r = 0; r < world.ranks; r++) {
      node_of[r] = world.gone[r] ? NO_NODE : world.node[r];
    }
    slots = random.between(1, 6);
    slot_bytes = (min_slot_bytes + 127) / 128 * 128 * random.between(1, 3);
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

  // Number of kernels that proxies serve; proxies end with the last.
  u32 open = 0;

  void start() {
    transport.start([this] { return open > 0; });
  }

  u32 rail(u32 rank, u32 node) const {
    std::vector<u32> there = live(node);
    std::vector<u32> here = live(world.node[rank]);
    u32 index = (u32)(std::find(here.begin(), here.end(), rank) - here.begin());
    return there.empty() ? world.ranks : there[index % there.size()];
  }

  u32 partners_of_rank(u32 rank) const { return (u32)partners[rank].size(); }

  u32 intranode(u32 rank) const {
    return (u32)std::count(world.node.begin(), world.node.end(), world.node[rank]);
  }

  std::string transport_text() const { return transport.text(); }

 private:
  u64 slots, slot_bytes, stride;
  std::vector<std::vector<u32>> partners;
  EmulatedTransport transport;
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

  u32 index(u32 rank, u32 other) const {
    const std::vector<u32>& all = partners[rank];
    return (u32)(std::find(all.begin(), all.end(), other) - all.begin());
  }

  // Landing memory: slots by partner, then words of counts by rank. Outgoing: the same, then own
  // words. Counters: arrived by partner, credits by partner, counts_published by rank.
  u64 ring_bytes() const { return slots * slot_bytes; }
  u64 words_at(u32 rank) const { return partners[rank].size() * ring_bytes(); }
  u64 arrived_at(u32 index) const { return index * slots; }
  u64 credits_at(u32 rank, u32 index) const { return (partners[rank].size() + index) * slots; }
  u64 internode_word(u32 rank) const { return 2 * partners[rank].size() * slots; }

  void add_memory(u32 r) {
    transport.add(max_ring_bytes() + world.ranks * stride * 8, words_at(r) + stride * 8, counts_published_base() + world.ranks);
  }

  // The offsets of words of counts, and of their counters, are equal on all ranks.
  u64 max_partners() const {
    size_t largest = 0;
    for (auto& all : partners) {
      largest = std::max(largest, all.size());
    }
    return largest;
  }
  u64 max_ring_bytes() const { return max_partners() * ring_bytes(); }
  u64 counts_published_base() const { return 2 * max_partners() * slots; }

  void add_world(u32 r) {
    Memory& memory = machine.memory;
    const InternodeEndpoint& own = transport.end(r);
    InternodeWorld* w = memory.zeroed<InternodeWorld>(1, "internode world", (int)r);
    internode.push_back(w);
    w->first = std::find(world.node.begin(), world.node.end(), world.node[r]) - world.node.begin();
    w->end = w->first + intranode(r);
    w->nodes = world.nodes();
    w->node = world.node[r];
    w->node_of = node_of;
    w->partners = partners[r].size();
    InternodePartner* all = memory.allocate<InternodePartner>(w->partners, "partners", (int)r);
    w->partner = all;
    u32* rails = memory.zeroed<u32>(w->nodes, "rail_to", (int)r);
    w->rail_to = rails;
    for (u32 q = 0; q < w->partners; q++) {
      u32 s = partners[r][q];
      u32 there = index(s, r);
      InternodePartner& one = all[q];
      one.rank = s;
      one.node = world.node[s];
      one.is_receiver = rail(r, world.node[s]) == s;
      one.is_sender = rail(s, world.node[r]) == r;
      if (one.is_receiver) {
        rails[one.node] = q;
      }
      one.out_source = own.outgoing_begins + q * ring_bytes();
      one.out_target = there * ring_bytes();
      one.out = transport.mapped() ? transport.end(s).incoming + one.out_target : own.outgoing + q * ring_bytes();
      one.in = own.incoming + q * ring_bytes();
      one.arrived = own.counters + arrived_at(q);
      one.credits = own.counters + credits_at(r, q);
      one.remote_arrived = arrived_at(there);
      one.remote_credits = credits_at(s, there);
    }
    w->slots = slots;
    w->slot_bytes = slot_bytes;
    w->mapped = transport.mapped();
    w->lanes = transport.lanes();
    w->sent = memory.zeroed<u64>(w->partners, "sent", (int)r);
    w->taken = memory.zeroed<u64>(w->partners, "taken", (int)r);
    w->counts_published = own.counters + counts_published_base();
    w->remote_counts_published = counts_published_base() + r;
    w->published_rounds = memory.zeroed<u64>(1, "published rounds", (int)r);
    w->counts_out = (u64*)(own.outgoing + words_at(r));
    w->counts_source = own.outgoing_begins + words_at(r);
    w->counts_target = max_ring_bytes() + r * stride * 8;
    u64** there = memory.allocate<u64*>(world.ranks, "remote counts", (int)r);
    for (u32 s = 0; s < world.ranks; s++) {
      there[s] = (u64*)(transport.end(s).incoming + w->counts_target);
    }
    w->remote_counts = there;
    w->counts_in = (const u64*)(own.incoming + max_ring_bytes());
    w->count_stride = stride;
    w->seen = memory.zeroed<ObservedCounters>(2 * w->partners, "seen", (int)r);
    w->transport = transport.describe(r, world.ranks);
  }
};

}  // namespace emulator
