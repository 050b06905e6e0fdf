// Rings of commands from the warps of a GPU to threads of a host, on random worlds: `proxy_world
// SEED CASES`. The host's threads are modelled here, step by step as in CommandRing.java and
// Poller.java; some are slow, some stop in order, some stop forever.
#include "common/ptx.cuh"

#include "transport/command_ring.cuh"

#include "main.hpp"

namespace emulator {

constexpr u32 GPU = 0;
constexpr u32 HOST = 1;

// Steps in which everything that can happen has happened: polls of the tail are stores, so the
// machine itself does not detect a hang.
constexpr u64 LONG = 10000000;

enum HostKind { HOST_AWAKE, HOST_NAPS, HOST_STOPS, HOST_DIES, HOSTS };

struct Case {
  CommandRings rings{};
  HostKind host;
  u32 threads;
  u32 warps;
  u32 pushes;  // of a warp
  u64 timeout;
  u64 stop_after;  // commands of a ring after which its thread stops
  u64 seed;
  bool ended = false;  // the kernel

  // By warp: commands that were pushed, whether a push was refused, whether its flush was answered.
  std::vector<u64> pushed;
  std::vector<bool> refused, flushed;

  // By ring: what the host has read, in order.
  std::vector<std::vector<Command>> read;
};

inline Case* now = nullptr;

// The lanes that have a command.
inline u32 lanes_of(u32 warp, u32 push) {
  std::mt19937_64 dice(now->seed ^ ((u64)warp << 32 | push));
  u32 lanes = (u32)dice();
  return dice() % 4 == 0 ? lanes & (u32)dice() & (u32)dice() & (u32)dice() : lanes;
}

inline void push_some() {
  u32 warp = blockIdx.x * (blockDim.x / 32) + warp_id();
  u32 ring = warp % (u32)now->rings.rings;
  u64 deadline = nanoseconds() + now->timeout;
  for (u32 i = 0; i < now->pushes; i++) {
    u32 who = lanes_of(warp, i);
    bool mine = (who >> lane_id() & 1) != 0;
    u64 number = now->pushed[warp] + __popc(who & ((1u << lane_id()) - 1));
    __syncwarp();
    Command command = put_command(1, ring, number * COMMAND_UNIT, (u64)warp * COMMAND_UNIT,
                                  COMMAND_UNIT * (number % 5), warp);
    if (!push(now->rings, ring, mine, command, deadline)) {
      now->refused[warp] = true;
      return;
    }
    if (lane_id() == 0) {
      now->pushed[warp] += __popc(who);
    }
    __syncwarp();
  }
  if (!push(now->rings, ring, lane_id() == 31, flush_command(1, ring, warp), deadline)) {
    now->refused[warp] = true;
    return;
  }
  if (lane_id() == 0) {
    now->flushed[warp] = await_count(now->rings, now->rings.flush_counters + warp, 1, 1, deadline);
  }
}

// One host thread a lane: it serves the rings of its number.
inline void host_threads() {
  const CommandRings& rings = now->rings;
  std::vector<u64> next(rings.rings);
  u32 self = threadIdx.x;
  u64 open = 0;
  for (u64 r = self; r < rings.rings && self < now->threads; r += now->threads) {
    open++;
  }
  while (open > 0) {
    bool ended = now->ended;
    u64 found = 0;
    for (u64 r = self; r < rings.rings; r += now->threads) {
      u64* tail = (u64*)rings.tails + r * TAIL_WORDS;
      if ((*tail & RING_STOPPED) != 0) {
        continue;
      }
      u64 begin = next[r];
      while (next[r] - begin < 7) {
        u64* at = rings.commands + (r * rings.capacity + next[r] % rings.capacity) * 2;
        u64 lap = next[r] / rings.capacity % 2 == 0 ? COMMAND_LAP : 0;
        Command command;
        command.first = load_acquire_system(at);
        if ((command.first & COMMAND_LAP) != lap) {
          break;
        }
        command.second = load_acquire_system(at + 1);
        if ((command.second & COMMAND_LAP) != lap) {
          break;
        }
        now->read[r].push_back({command.first & ~COMMAND_LAP, command.second & ~COMMAND_LAP});
        next[r]++;
        if (command.first << 1 >> (OPERATION_SHIFT + 1) == COMMAND_FLUSH) {
          u64* flush_counter = (u64*)rings.flush_counters + (command.second >> COUNTER_SHIFT & NO_COUNTER);
          store_release_system(flush_counter, *flush_counter + 1);
        }
      }
      found += next[r] - begin;
      bool stops = now->host == HOST_STOPS && next[r] >= now->stop_after;
      if (next[r] != begin || stops || ended) {
        stops |= ended && next[r] == begin;
        if (stops && now->host == HOST_STOPS) {
          store_release_system((u64*)rings.failures + 1, 1);
        }
        store_release_system(tail, next[r] | (stops ? RING_STOPPED : 0));
        open -= stops;
      }
    }
    yield_fiber();
  }
}

// Commands that are written and not read: the host has read `read`, and no warp is further ahead
// than the length of the ring.
u64 unread(u64 ring, u64 read) {
  const CommandRings& rings = now->rings;
  u64 written = 0;
  for (u64 ticket = read; ticket < read + rings.capacity; ticket++) {
    const u64* at = rings.commands + (ring * rings.capacity + ticket % rings.capacity) * 2;
    u64 lap = ticket / rings.capacity % 2 == 0 ? COMMAND_LAP : 0;
    written += (at[0] & COMMAND_LAP) == lap && (at[1] & COMMAND_LAP) == lap;
  }
  return written;
}

void check_ring(u64 ring) {
  std::vector<u64> numbers(now->warps);
  for (const Command& command : now->read[ring]) {
    u64 warp = (command.second >> COUNTER_SHIFT) & NO_COUNTER;
    if (warp >= now->warps || warp % now->rings.rings != ring) {
      fail("ring %llu: a command of warp %llu", ring, warp);
    }
    u64 number = numbers[warp]++;
    bool flushes = command.first << 1 >> (OPERATION_SHIFT + 1) == COMMAND_FLUSH;
    Command expected =
        flushes ? flush_command(1, (u32)ring, (u32)warp)
                : put_command(1, (u32)ring, number * COMMAND_UNIT, warp * COMMAND_UNIT,
                              COMMAND_UNIT * (number % 5), (u32)warp);
    if (command.first != expected.first || command.second != expected.second) {
      fail("ring %llu, warp %llu: %llx %llx instead of command %llu, which is %llx %llx", ring,
           warp, command.first, command.second, number, expected.first, expected.second);
    }
  }
  bool refused = false;
  u64 accepted = 0;
  for (u32 warp = (u32)ring; warp < now->warps; warp += now->rings.rings) {
    refused |= now->refused[warp];
    accepted += now->pushed[warp] + !now->refused[warp];
  }
  u64 read = now->read[ring].size();
  if (read + unread(ring, read) != accepted) {
    fail("ring %llu: %llu commands were read, %llu wait, %llu were accepted", ring, read,
         unread(ring, read), accepted);
  }
  // A refused warp has left a hole; the host does not read commands behind it.
  bool complete = now->host <= HOST_NAPS && !refused;
  for (u32 warp = (u32)ring; warp < now->warps; warp += now->rings.rings) {
    u64 all = now->pushed[warp] + !now->refused[warp];
    if (numbers[warp] > all || (complete && numbers[warp] != all)) {
      fail("ring %llu, warp %u: %llu commands of %llu arrived", ring, warp, numbers[warp], all);
    }
    if (complete && !now->flushed[warp] && now->host == HOST_AWAKE) {
      fail("ring %llu, warp %u: its flush was not answered", ring, warp);
    }
  }
  bool failed_wait = now->rings.records[ring].state != 0;
  bool stopped = (now->rings.tails[ring * TAIL_WORDS] & RING_STOPPED) != 0;
  if (refused && !failed_wait && !(now->host == HOST_STOPS && stopped)) {
    fail("ring %llu: a push was refused, and the record has no reason", ring);
  }
  if (now->host == HOST_AWAKE && (refused || failed_wait)) {
    fail("ring %llu: a push was refused before its deadline", ring);
  }
}

void proxy_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  Machine machine(seed, 2);
  Memory& memory = machine.memory;
  Case mine{};
  now = &mine;
  u32 rings = first.between(1, 3);
  mine.rings.rings = rings;
  mine.rings.capacity = 64u << first.below(3);
  mine.rings.commands = memory.zeroed<u64>(rings * mine.rings.capacity * 2, "commands", EVERYBODY);
  mine.rings.tails = memory.zeroed<u64>(rings * TAIL_WORDS, "tails", EVERYBODY);
  mine.rings.control = memory.zeroed<RingControl>(rings, "control", GPU);
  mine.rings.records = memory.zeroed<RingRecord>(rings, "records", EVERYBODY);
  mine.rings.failures = memory.zeroed<u64>(2, "failures", EVERYBODY);
  u32 blocks = first.between(1, 4);
  u32 threads = 32 * first.between(1, 4);
  mine.warps = blocks * threads / 32;
  mine.rings.flush_counters = memory.zeroed<u64>(mine.warps, "flush counters", EVERYBODY);
  mine.pushes = first.between(1, 24);
  mine.host = (HostKind)first.below(HOSTS);
  mine.threads = first.between(1, rings);
  mine.timeout = mine.host == HOST_NAPS || mine.host == HOST_DIES ? first.between(100000, 800000)
                                                                 : LONG;
  mine.stop_after = first.below(mine.warps * mine.pushes * 16 / rings + 1);
  mine.seed = seed;
  mine.pushed.resize(mine.warps);
  mine.refused.resize(mine.warps);
  mine.flushed.resize(mine.warps);
  mine.read.resize(rings);
  about += "rings " + std::to_string(rings) + " of " + std::to_string(mine.rings.capacity) +
           ", warps " + std::to_string(mine.warps) + ", pushes " + std::to_string(mine.pushes) +
           ", host " + std::to_string(mine.host) + " with threads " + std::to_string(mine.threads);
  if (mine.host == HOST_NAPS || mine.host == HOST_DIES) {
    machine.put_to_sleep(HOST, first.below(1u << first.between(4, 17)),
                         mine.host == HOST_DIES ? FOREVER : first.below(1000000), [] {});
  }
  machine.enqueue(GPU, {"push_some", blocks, threads, 0, push_some, [] { now->ended = true; }});
  machine.enqueue(HOST, {"host", 1, 32, 0, host_threads, {}});
  machine.run();
  for (u64 ring = 0; ring < rings; ring++) {
    check_ring(ring);
  }
}

const Worlds worlds = {{"proxy_world", proxy_case}};

}  // namespace emulator
