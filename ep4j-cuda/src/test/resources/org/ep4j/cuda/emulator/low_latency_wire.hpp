// A wire between the nodes of low-latency operations, and the host's threads that drive it: they read
// the rings and carry the commands out late, in parts and in any order that lanes allow.
#pragma once
#include "low_latency_region.hpp"

#if EP4J_FAR == EP4J_FAR_PUTS
namespace emulator {

class LatencyWire {
 public:
  LatencyWire(Machine& machine, const World& world, const LatencyRegion& at, u32 hidden,
              std::vector<char*>& far_parts)
      : machine(machine), random(machine.random), ranks(world.ranks) {
    Memory& memory = machine.memory;
    landing_bytes = AHEAD + at.bytes;
    rows_offset = (at.source_bytes + 127) / 128 * 128;
    half_bytes = rows_offset + world.most_tokens * world.most_choices * 2 * hidden;
    outgoing_bytes = AHEAD + world.ranks * 2 * half_bytes;
    first_counter = random.below(5);
    threads = random.between(1, 3);
    lanes = random.between(1, 3);
    rings = threads * random.between(1, 2);
    capacity = 64u << random.below(2);
    for (u32 r = 0; r < ranks; r++) {
      std::string name = " of rank " + std::to_string(r);
      landing.push_back(memory.allocate(landing_bytes, "landing memory" + name, EVERYBODY));
      far_parts[r] = landing[r] + AHEAD;
      at.clear(far_parts[r]);
      at.label(memory, far_parts[r]);
      outgoing.push_back(memory.allocate(outgoing_bytes, "outgoing memory" + name, EVERYBODY));
      counters.push_back(
          memory.zeroed<u64>(first_counter + ranks * POST_COUNTERS, "counters" + name, EVERYBODY));
      add_rings(r, name);
    }
  }

  const FarPosts* posts(u32 r) const { return all[r]; }
  char* shadow(u32 r) const { return outgoing[r] + AHEAD; }

  // The threads of each rank's host, on streams behind those of the GPUs; `busy` until all has ended.
  void start(std::function<bool()> busy) {
    for (u32 r = 0; r < ranks; r++) {
      queues.emplace_back(threads);
      machine.enqueue(ranks + r, {"proxy", 1, 32, 0, [=, this] { drive(r, busy); }, {}});
    }
  }

 private:
  static constexpr u64 AHEAD = 4096;

  struct Pending {
    Command command;
    bool begun;
  };

  Machine& machine;
  Random& random;
  u32 ranks;
  u32 threads, lanes;
  u64 rings, capacity;
  u64 landing_bytes, outgoing_bytes, rows_offset, half_bytes, first_counter;
  std::vector<char*> landing, outgoing;
  std::vector<u64*> counters;
  std::vector<FarWorld*> worlds;
  std::vector<FarPosts*> all;
  std::vector<std::vector<std::vector<Pending>>> queues;  // [rank][thread]

  void add_rings(u32 r, const std::string& name) {
    Memory& memory = machine.memory;
    FarWorld* far = memory.zeroed<FarWorld>(1, "far world" + name, (int)r);
    far->lanes = lanes;
    far->rings.rings = rings;
    far->rings.capacity = capacity;
    far->rings.commands = memory.zeroed<u64>(rings * capacity * 2, "commands" + name, EVERYBODY);
    far->rings.tails = memory.zeroed<u64>(rings * TAIL_WORDS, "tails" + name, EVERYBODY);
    far->rings.control = memory.zeroed<RingControl>(rings, "ring control" + name, (int)r);
    far->rings.records = memory.zeroed<RingRecord>(rings, "ring records" + name, EVERYBODY);
    far->rings.failures = memory.zeroed<u64>(ranks, "failures" + name, EVERYBODY);
    worlds.push_back(far);
    // As after a reset: counters are what they are.
    u64* base = memory.allocate<u64>(ranks * POST_COUNTERS, "base" + name, (int)r);
    for (u32 i = 0; i < ranks * POST_COUNTERS; i++) {
      base[i] = counters[r][first_counter + i] = random.below(1000);
    }
    FarPosts* posts = memory.zeroed<FarPosts>(1, "posts" + name, (int)r);
    *posts = FarPosts{far, shadow(r), AHEAD, half_bytes, rows_offset, AHEAD,
                      counters[r] + first_counter, base, first_counter};
    all.push_back(posts);
  }

  void drive(u32 r, const std::function<bool()>& busy) {
    u32 self = threadIdx.x;
    std::vector<u64> next(rings);
    while (self < threads) {
      bool goes_on = busy();
      bool found = false;
      for (u64 ring = self; ring < rings; ring += threads) {
        found |= read_some(r, ring, next[ring], queues[r][self]);
      }
      carry_some(r, queues[r][self]);
      if (!goes_on && !found && queues[r][self].empty()) {
        return;
      }
      give_way();
    }
  }

  bool read_some(u32 r, u64 ring, u64& next, std::vector<Pending>& queue) {
    const CommandRings& from = worlds[r]->rings;
    u64 begin = next;
    u32 most = random.below(40);
    while (next - begin < most) {
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
    return next != begin || most == 0;
  }

  static u32 peer_of(const Command& c) { return (u32)(c.second >> DESTINATION_SHIFT & 0xfff); }
  static u32 lane_of(const Command& c) { return (u32)(c.first >> LANE_SHIFT & 0xff); }
  static bool adds(const Command& c) { return (c.first >> OPERATION_SHIFT & 7) == COMMAND_ADD; }
  static u64 counter_of(const Command& c) { return c.second >> COUNTER_SHIFT & NO_COUNTER; }

  void carry_some(u32 r, std::vector<Pending>& queue) {
    for (u32 turns = random.below(12); turns > 0 && !queue.empty(); turns--) {
      u32 i = random.once_in(2) ? 0 : random.below((u32)queue.size());
      Pending& pending = queue[i];
      Command command = pending.command;
      bool first = true;
      for (u32 j = 0; j < i && adds(command); j++) {
        first = first && (peer_of(queue[j].command) != peer_of(command) ||
                          lane_of(queue[j].command) != lane_of(command));
      }
      if (!first) {
        continue;
      }
      if (adds(command)) {
        grow(r, command, (u32)command.first | (u64)(u32)command.second << 32);
      } else if (!put(r, command, pending)) {
        continue;
      }
      queue.erase(queue.begin() + i);
    }
  }

  // One half first, the other some time later.
  bool put(u32 r, const Command& command, Pending& pending) {
    u64 source = (u64)(u32)command.first * COMMAND_UNIT;
    u64 target = (u64)(u32)command.second * COMMAND_UNIT;
    u64 bytes = (command.first >> LENGTH_SHIFT & 0xfffff) * COMMAND_UNIT;
    if (source + bytes > outgoing_bytes || target < AHEAD || target + bytes > landing_bytes) {
      fail("rank %u: a put of %llu bytes from %llu to %llu of rank %u", r, bytes, source, target,
           peer_of(command));
    }
    u64 half = bytes / 2 / COMMAND_UNIT * COMMAND_UNIT;
    u64 from = pending.begun ? half : 0;
    u64 to = pending.begun ? bytes : half;
    std::memcpy(landing[peer_of(command)] + target + from, outgoing[r] + source + from, to - from);
    machine.moved();
    if (!pending.begun) {
      pending.begun = true;
      return false;
    }
    if (counter_of(command) != NO_COUNTER) {
      grow(r, command, 1);
    }
    return true;
  }

  void grow(u32 r, const Command& command, u64 value) {
    u64 number = counter_of(command);
    if (number >= first_counter + ranks * POST_COUNTERS) {
      fail("rank %u: counter %llu of rank %u", r, number, peer_of(command));
    }
    u64* at = counters[peer_of(command)] + number;
    store_release_system(at, *at + value);
  }
};

}  // namespace emulator
#endif
