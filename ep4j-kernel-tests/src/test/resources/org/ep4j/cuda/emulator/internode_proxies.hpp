// Proxies between nodes: their threads read the commands of kernels and execute them, lanes at
// different paces, puts of a lane in any order and in parts, adds after all puts before them. In
// mapped worlds kernels write landing memory of other ranks themselves, and commands are only adds.
#pragma once
#include "internode_endpoint.hpp"

namespace emulator {

class EmulatedTransport {
 public:
  explicit EmulatedTransport(Machine& machine) : machine(machine), random(machine.random) {
    is_mapped = random.once_in(2);
  }

  bool mapped() const { return is_mapped; }
  u64 lanes() { return random.between(1, 9); }
  std::string text() const { return is_mapped ? "mapped" : "put"; }

  void add(u64 incoming_bytes, u64 outgoing_bytes, u64 counters) {
    Memory& memory = machine.memory;
    u32 r = (u32)ends.size();
    std::string name = " of rank " + std::to_string(r);
    char* incoming = memory.allocate(incoming_bytes, "landing" + name, is_mapped ? EVERYBODY : (int)r);
    char* outgoing = memory.allocate(outgoing_bytes, "outgoing" + name, (int)r);
    u64* words = memory.zeroed<u64>(counters, "counters" + name, (int)r);
    ends.push_back({incoming, incoming_bytes, outgoing, outgoing_bytes, 0, words, counters});
  }

  const InternodeEndpoint& end(u32 r) const { return ends[r]; }

  InternodeTransport describe(u32 r, u32 ranks) {
    InternodeTransport made{};
    made.counters = ends[r].counters;
    add_rings(made.rings, r, ranks);
    rings.push_back(made.rings);
    return made;
  }

  void start(std::function<bool()> busy) {
    for (u32 r = 0; r < ends.size(); r++) {
      u32 threads = random.between(1, (u32)rings[r].rings);
      machine.enqueue((u32)ends.size() + r,
                      {"proxy", 1, LANES, 0, [=, this] { serve(r, threads, busy); }, {}});
    }
  }

 private:
  using Lanes = std::map<std::pair<u32, u32>, std::deque<Command>>;  // (peer, lane of the thread)

  Machine& machine;
  Random& random;
  bool is_mapped;
  std::vector<InternodeEndpoint> ends;
  std::vector<CommandRings> rings;  // of each rank

  void add_rings(CommandRings& made, u32 r, u32 ranks) {
    Memory& memory = machine.memory;
    made.rings = random.between(1, 4);
    made.capacity = 64;
    made.commands = memory.zeroed<u64>(made.rings * made.capacity * 2, "commands", (int)r);
    made.tails = memory.zeroed<u64>(made.rings * TAIL_WORDS, "tails", (int)r);
    made.control = memory.zeroed<RingControl>(made.rings, "ring control", (int)r);
    made.records = memory.zeroed<RingRecord>(made.rings, "ring records", (int)r);
    made.failures = memory.zeroed<u64>(ranks, "failures", (int)r);
  }

  // Thread t of a proxy serves the rings t, t + threads and so on.
  void serve(u32 r, u32 threads, const std::function<bool()>& busy) {
    u32 self = threadIdx.x;
    if (self >= threads) {
      return;
    }
    const CommandRings& own = rings[r];
    std::vector<u64> next(own.rings);
    Lanes lanes;
    while (busy()) {
      for (u64 ring = self; ring < own.rings; ring += threads) {
        read(own, ring, next[ring], lanes);
      }
      for (auto lane = lanes.begin(); lane != lanes.end();) {
        std::deque<Command>& commands = lane->second;
        while (!commands.empty() && !random.once_in(3)) {
          execute(r, lane->first.first, commands);
        }
        // In large worlds most lanes have nothing to do.
        lane = commands.empty() ? lanes.erase(lane) : std::next(lane);
      }
      yield_fiber();
    }
  }

  void read(const CommandRings& own, u64 ring, u64& next, Lanes& lanes) {
    u64 begin = next;
    while (next - begin < 5) {
      u64* at = own.commands + (ring * own.capacity + next % own.capacity) * 2;
      u64 lap = next / own.capacity % 2 == 0 ? COMMAND_LAP : 0;
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
      ((u64*)own.tails)[ring * TAIL_WORDS] = next;
      machine.moved();
    }
  }

  static bool is_put(const Command& command) {
    return command.first >> OPERATION_SHIFT == COMMAND_PUT;
  }

  // One of the first puts of a lane, or the add in front of them.
  void execute(u32 r, u32 peer, std::deque<Command>& commands) {
    u32 puts = 0;
    while (puts < commands.size() && is_put(commands[puts])) {
      puts++;
    }
    u32 which = puts == 0 ? 0 : random.below(puts);
    Command command = commands[which];
    commands.erase(commands.begin() + which);
    machine.moved();
    const InternodeEndpoint& to = ends[peer];
    if (!is_put(command)) {
      u64 counter = command.second >> COUNTER_SHIFT & NO_COUNTER;
      u64 value = (u32)command.first | command.second << 32;
      if (counter >= to.counter_count || value != 1) {
        fail("rank %u: a bad add to counter %llu", r, counter);
      }
      to.counters[counter] += value;
      return;
    }
    u64 bytes = (command.first >> LENGTH_SHIFT & 0xfffff) * COMMAND_UNIT;
    u64 source = (command.first & 0xffffffff) * COMMAND_UNIT;
    u64 target = (command.second & 0xffffffff) * COMMAND_UNIT;
    if (is_mapped || (command.second >> COUNTER_SHIFT & NO_COUNTER) != NO_COUNTER ||
        source + bytes > ends[r].outgoing_bytes || target + bytes > to.incoming_bytes) {
      fail("rank %u: a bad put of %llu bytes", r, bytes);
    }
    u64 half = bytes / 32 * 16;
    std::memcpy(to.incoming + target + half, ends[r].outgoing + source + half, bytes - half);
    yield_fiber();
    std::memcpy(to.incoming + target, ends[r].outgoing + source, half);
    machine.moved();
  }
};

}  // namespace emulator
