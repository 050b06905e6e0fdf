// Ranks of several nodes: memory of their hosts, counters, and threads of their proxies, which read the
// commands of kernels and carry them out: lanes at different paces, puts of a lane in any order and in
// parts, adds after all puts before them.
#pragma once
#include "routing.hpp"

namespace emulator {

class FarNodes {
 public:
  Machine& machine;
  const World& world;
  std::vector<FarWorld*> far;
  u32* node_of;

  // Machines of ranks come first, those of their proxies behind.
  static u32 streams(const World& world) { return 2 * world.ranks; }

  FarNodes(Machine& machine, const World& world, u64 least_slot_bytes)
      : machine(machine), world(world), queues(world.ranks), random(machine.random) {
    Memory& memory = machine.memory;
    node_of = memory.allocate<u32>(world.ranks, "node_of", EVERYBODY);
    for (u32 r = 0; r < world.ranks; r++) {
      node_of[r] = world.gone[r] ? NO_NODE : world.node[r];
    }
    slots = random.between(1, 6);
    slot_bytes = (least_slot_bytes + 127) / 128 * 128 * random.between(1, 3);
    mapped = random.once_in(2);
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
    for (u32 r = 0; r < world.ranks; r++) {
      if (!world.gone[r]) {
        u32 threads = random.between(1, (u32)far[r]->rings.rings);
        machine.enqueue(world.ranks + r, {"proxy", 1, LANES, 0, [this, r, threads] { serve(r, threads); }, {}});
      }
    }
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

  bool is_mapped() const { return mapped; }

 private:
  struct Queue {
    u32 peer;
    std::deque<Command> commands;
  };

  u64 slots, slot_bytes, stride;
  bool mapped;
  std::vector<std::vector<u32>> partners;
  std::vector<char*> landing, outgoing;
  std::vector<u64*> counters;
  std::vector<u64> put_bytes;
  std::vector<std::map<std::pair<u32, u32>, std::deque<Command>>> queues;  // [ranks] (peer, lane of thread)
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
    Memory& memory = machine.memory;
    std::string name = " of rank " + std::to_string(r);
    u64 words = world.ranks * stride * 8;
    landing.push_back(memory.allocate(words_at(0) * 0 + most_ring_bytes() + words, "landing" + name,
                                      mapped ? EVERYBODY : (int)r));
    outgoing.push_back(memory.allocate(words_at(r) + stride * 8, "outgoing" + name, (int)r));
    counters.push_back(memory.zeroed<u64>(most_told() + world.ranks, "counters" + name, (int)r));
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
      one.out_source = q * ring_bytes();
      one.out_target = there * ring_bytes();
      one.out = mapped ? landing[s] + one.out_target : outgoing[r] + one.out_source;
      one.in = landing[r] + q * ring_bytes();
      one.arrived = counters[r] + arrived_at(q);
      one.credits = counters[r] + credits_at(r, q);
      one.arrived_there = arrived_at(there);
      one.credits_there = credits_at(s, there);
    }
    w->slots = slots;
    w->slot_bytes = slot_bytes;
    w->mapped = mapped;
    w->lanes = random.between(1, 4);
    w->sent = memory.zeroed<u64>(w->partners, "sent", (int)r);
    w->taken = memory.zeroed<u64>(w->partners, "taken", (int)r);
    w->told = counters[r] + most_told();
    w->told_there = most_told() + r;
    w->tellings = memory.zeroed<u64>(1, "tellings", (int)r);
    w->counts_out = (u64*)(outgoing[r] + words_at(r));
    w->counts_source = words_at(r);
    w->counts_target = most_ring_bytes() + r * stride * 8;
    u64** there = memory.allocate<u64*>(world.ranks, "counts_there", (int)r);
    for (u32 s = 0; s < world.ranks; s++) {
      there[s] = (u64*)(landing[s] + w->counts_target);
    }
    w->counts_there = there;
    w->counts_in = (const u64*)(landing[r] + most_ring_bytes());
    w->count_stride = stride;
    w->seen = memory.zeroed<FarSeen>(2 * w->partners, "seen", (int)r);
    add_rings(w->rings, r);
  }

  void add_rings(CommandRings& rings, u32 r) {
    Memory& memory = machine.memory;
    rings.rings = random.between(1, 4);
    rings.capacity = 64;
    rings.commands = memory.zeroed<u64>(rings.rings * rings.capacity * 2, "commands", (int)r);
    rings.tails = memory.zeroed<u64>(rings.rings * TAIL_WORDS, "tails", (int)r);
    rings.control = memory.zeroed<RingControl>(rings.rings, "ring control", (int)r);
    rings.records = memory.zeroed<RingRecord>(rings.rings, "ring records", (int)r);
    rings.failures = memory.zeroed<u64>(world.ranks, "failures", (int)r);
    rings.notices = nullptr;
  }

  // Thread t of a proxy serves the rings t, t + threads and so on.
  void serve(u32 r, u32 threads) {
    u32 self = threadIdx.x;
    if (self >= threads) {
      return;
    }
    const CommandRings& rings = far[r]->rings;
    std::vector<u64> next(rings.rings);
    std::map<std::pair<u32, u32>, std::deque<Command>> lanes;
    while (open > 0) {
      for (u64 ring = self; ring < rings.rings; ring += threads) {
        read(rings, ring, next[ring], lanes);
      }
      for (auto& [to, commands] : lanes) {
        while (!commands.empty() && !random.once_in(3)) {
          carry_out(r, to.first, commands);
        }
      }
      give_way();
    }
  }

  void read(const CommandRings& rings, u64 ring, u64& next,
            std::map<std::pair<u32, u32>, std::deque<Command>>& lanes) {
    u64 begin = next;
    while (next - begin < 5) {
      u64* at = rings.commands + (ring * rings.capacity + next % rings.capacity) * 2;
      u64 lap = next / rings.capacity % 2 == 0 ? COMMAND_LAP : 0;
      if ((at[0] & COMMAND_LAP) != lap || (at[1] & COMMAND_LAP) != lap) {
        break;
      }
      Command command{at[0] & ~COMMAND_LAP, at[1] & ~COMMAND_LAP};
      u32 peer = (u32)(command.second >> DESTINATION_SHIFT & 0xfff);
      u32 lane = (u32)(command.first >> LANE_SHIFT & 0xff);
      lanes[{peer, lane}].push_back(command);
      next++;
    }
    if (next != begin) {
      ((u64*)rings.tails)[ring * TAIL_WORDS] = next;
      machine.moved();
    }
  }

  static bool is_put(const Command& command) {
    return command.first >> OPERATION_SHIFT == COMMAND_PUT;
  }

  // One of the first puts of a lane, or the add in front.
  void carry_out(u32 r, u32 peer, std::deque<Command>& commands) {
    u32 puts = 0;
    while (puts < commands.size() && is_put(commands[puts])) {
      puts++;
    }
    u32 which = puts == 0 ? 0 : random.below(puts);
    Command command = commands[which];
    commands.erase(commands.begin() + which);
    machine.moved();
    if (!is_put(command)) {
      u64 counter = command.second >> COUNTER_SHIFT & NO_COUNTER;
      u64 value = (u32)command.first | command.second << 32;
      if (counter >= most_told() + world.ranks || value != 1) {
        fail("rank %u: a bad add to counter %llu", r, counter);
      }
      counters[peer][counter] += value;
      return;
    }
    u64 bytes = (command.first >> LENGTH_SHIFT & 0xfffff) * COMMAND_UNIT;
    u64 source = (command.first & 0xffffffff) * COMMAND_UNIT;
    u64 target = (command.second & 0xffffffff) * COMMAND_UNIT;
    if (mapped || (command.second >> COUNTER_SHIFT & NO_COUNTER) != NO_COUNTER ||
        source + bytes > words_at(r) + stride * 8 ||
        target + bytes > most_ring_bytes() + world.ranks * stride * 8) {
      fail("rank %u: a bad put of %llu bytes", r, bytes);
    }
    u64 half = bytes / 32 * 16;
    std::memcpy(landing[peer] + target + half, outgoing[r] + source + half, bytes - half);
    give_way();
    std::memcpy(landing[peer] + target, outgoing[r] + source, half);
    machine.moved();
  }
};

}  // namespace emulator
