// The guarantees of device_put.cuh, between ranks of random nodes. Every warp puts blocks to all
// ranks, itself included, in pieces and in any order, signals, overwrites its source with garbage
// once a flush has returned, and compares each received block once its signal has arrived.
#pragma once
#include "common/ptx.cuh"

#include "probe/put_probe.cu"

#include "main.hpp"
#include "put_transports.hpp"

namespace emulator {

constexpr int RUBBISH_BYTE = 0x5a;

// Steps that suffice for everything: fewer than the steps after which a machine reports a hang.
constexpr u64 TIMEOUT = 1500000;

struct Exchange {
  u32 ranks, lanes, rounds;
  u64 bytes;  // of a block
  u64 deadline;
  std::vector<u32> node;  // of each rank
  u32 ended = 0;          // kernels
  bool failed_wait = false;   // whether a warp aborted

  // Memory of a rank: one block for each lane that puts, then one for each lane of each rank that
  // puts here.
  u64 source(u32 lane) const { return lane * bytes; }
  u64 target(u32 from, u32 lane) const { return (lanes + from * lanes + lane) * bytes; }
  u64 memory_bytes() const { return (lanes + ranks * lanes) * bytes; }

  // Signals: "the block has arrived" and "I have read it", for each lane of each rank; one for all.
  u32 there(u32 from, u32 lane) const { return from * lanes + lane; }
  u32 seen(u32 by, u32 lane) const { return (ranks + by) * lanes + lane; }
  u32 total() const { return 2 * ranks * lanes; }
  u32 signals() const { return total() + 1; }
};

inline Exchange* now = nullptr;

inline u8 byte_of(u32 from, u32 to, u32 lane, u32 round, u64 at) {
  return (u8)(from * 167 + to * 59 + lane * 31 + round * 101 + at * 7 + (at >> 8));
}

// A random number that is equal on all lanes.
inline u64 dice_of(u32 rank, u32 lane, u32 round, u32 salt) {
  return std::mt19937_64((u64)rank << 48 ^ (u64)lane << 32 ^ (u64)round << 8 ^ salt)();
}

inline bool put_pieces(const DevicePut& p, u32 lane, u32 peer, u32 round) {
  u64 vectors = now->bytes / 16;
  u64 cut = dice_of((u32)p.rank, lane, round, peer) % (vectors + 1) * 16;
  u64 from = now->source(lane), to = now->target((u32)p.rank, lane);
  bool back = dice_of((u32)p.rank, lane, round, peer + 77) % 2 == 0;
  u64 cuts[2][2] = {{0, cut}, {cut, now->bytes}};
  for (u32 i = 0; i < 2; i++) {
    auto& piece = cuts[back ? 1 - i : i];
    if (!put(p, lane, peer, to + piece[0], from + piece[0], piece[1] - piece[0], now->deadline)) {
      return false;
    }
  }
  return true;
}

inline bool send_round(const DevicePut& p, u32 lane, u32 round) {
  u32 begin = (u32)dice_of((u32)p.rank, lane, round, 999) % now->ranks;
  for (u32 i = 0; i < now->ranks; i++) {
    u32 peer = (begin + i) % now->ranks;
    if (!await_signal(p, now->seen(peer, lane), peer, round, now->deadline)) {
      return false;
    }
    char* block = p.own + now->source(lane);
    for (u64 at = lane_id(); at < now->bytes; at += 32) {
      block[at] = byte_of((u32)p.rank, peer, lane, round, at);
    }
    bool early = dice_of((u32)p.rank, lane, round, peer + 55) % 2 == 0;
    bool done = put_pieces(p, lane, peer, round) && (!early || flush(p, lane, peer, now->deadline));
    done = done && signal(p, lane, peer, now->there((u32)p.rank, lane), 1, now->deadline) &&
           signal(p, lane, peer, now->total(), lane + 1, now->deadline);
    if (!done || (!early && !flush(p, lane, peer, now->deadline))) {
      return false;
    }
    for (u64 at = lane_id(); at < now->bytes; at += 32) {
      block[at] = RUBBISH_BYTE;
    }
  }
  return true;
}

inline bool receive_round(const DevicePut& p, u32 lane, u32 round) {
  for (u32 from = 0; from < now->ranks; from++) {
    if (!await_signal(p, now->there(from, lane), from, round + 1, now->deadline)) {
      return false;
    }
    char* block = (char*)arrivals(p, from) + now->target(from, lane);
    for (u64 at = lane_id(); at < now->bytes; at += 32) {
      u8 due = byte_of(from, (u32)p.rank, lane, round, at);
      if ((u8)block[at] != due) {
        fail("rank %llu, lane %u, round %u: byte %llu from rank %u is %02x, not %02x", p.rank, lane,
             round, at, from, (u8)block[at], due);
      }
      block[at] = RUBBISH_BYTE;
    }
    if (!signal(p, lane, from, now->seen((u32)p.rank, lane), 1, now->deadline)) {
      return false;
    }
  }
  return true;
}

inline void exchange_blocks(const DevicePut& p) {
  u32 lane = own_lane();
  for (u32 round = 0; round < now->rounds; round++) {
    if (!send_round(p, lane, round) || !receive_round(p, lane, round)) {
      now->failed_wait = true;
      return;
    }
  }
  u64 all = (u64)now->rounds * now->ranks * now->lanes * (now->lanes + 1) / 2;
  if (!await_signal(p, now->total(), (u32)p.rank, all, now->deadline)) {
    now->failed_wait = true;
  }
}

// The memory of all ranks, and the carrier between them.
class PutWorld {
 public:
  std::vector<DevicePut> puts;  // by rank

  explicit PutWorld(Machine& machine) : machine(machine), transport(machine) {
    for (u32 r = 0; r < now->ranks; r++) {
      std::string name = " of rank " + std::to_string(r);
      Memory& memory = machine.memory;
      u64 bytes = now->memory_bytes();
      DevicePut p{};
      p.rank = r;
      p.ranks = now->ranks;
      p.lanes = now->lanes;
      p.signals = now->signals();
      p.own = memory.allocate(bytes + p.signals * 8, "memory" + name, EVERYBODY);
      std::memset(p.own + bytes, 0, p.signals * 8);
      p.signal_words = bytes;
      p.flushes = memory.zeroed<u64>(now->lanes, "flushes" + name, (int)r);
      transport.add(p, bytes, name);
      puts.push_back(p);
    }
    for (DevicePut& p : puts) {
      char** peers = machine.memory.zeroed<char*>(now->ranks, "peers", (int)p.rank);
      for (u32 r = 0; r < now->ranks; r++) {
        peers[r] = transport.stores(now->node[p.rank], now->node[r]) ? puts[r].own : nullptr;
      }
      p.peers = peers;
    }
    transport.start([this] { return now->ended < expected; });
  }

  // Launches on each rank, once earlier launches have ended everywhere.
  void launch(const std::string& name, u32 blocks, std::function<void(const DevicePut&)> body) {
    u32 before = expected;
    expected += now->ranks;
    for (const DevicePut& p : puts) {
      auto all = [&p, before, body] {
        while (now->ended < before) {
          yield_fiber();
        }
        body(p);
      };
      machine.enqueue((u32)p.rank, {name, blocks, now->lanes / blocks * LANES, 0, all, [] { now->ended++; }});
    }
  }

  // A rank stops in the middle of an operation.
  void lose(u32 rank, u64 after) {
    machine.put_to_sleep(rank, after, FOREVER, [this, rank] {
      expected--;
      transport.lose(rank);
    });
  }

  void expect_signal(u32 number, u64 due) {
    for (const DevicePut& p : puts) {
      u64 seen = ((u64*)(p.own + p.signal_words))[number] + transport.counted(p, number);
      if (seen != due) {
        fail("rank %llu: signal %u is %llu, not %llu", p.rank, number, seen, due);
      }
    }
  }

 private:
  Machine& machine;
  Transport transport;
  u32 expected = 0;
};

inline void run_exchange(PutWorld& world, Random& random, u32 blocks) {
  bool loses = random.once_in(4);
  now->deadline = loses ? TIMEOUT : FOREVER;
  if (loses) {
    world.lose(random.below(now->ranks), random.below(1u << random.between(4, 18)));
  }
  world.launch("exchange_blocks", blocks, exchange_blocks);
  Machine::the->run();
  if (!loses) {
    for (u32 from = 0; from < now->ranks; from++) {
      for (u32 lane = 0; lane < now->lanes; lane++) {
        world.expect_signal(now->there(from, lane), now->rounds);
        world.expect_signal(now->seen(from, lane), now->rounds);
      }
    }
    if (now->failed_wait) {
      fail("a warp aborted, although no rank was lost");
    }
  }
}

// The kernels of the tests and the benchmark, in the same order.
inline void run_probes(PutWorld& world, Machine& machine, u32 blocks) {
  u32 lanes = now->lanes;
  std::vector<u64*> past, results;
  for (u32 r = 0; r < 2; r++) {
    past.push_back(machine.memory.zeroed<u64>(4 * lanes + 1, "past", (int)r));
    results.push_back(machine.memory.zeroed<u64>(lanes, "results", (int)r));
  }
  auto run = [&](const DevicePut& p) {
    return PutRun{1 - p.rank, now->bytes, now->rounds, FOREVER / 2, results[p.rank], past[p.rank]};
  };
  auto expect_results = [&](u32 count, bool zero) {
    for (u32 i = 0; i < 2 * count; i++) {
      if ((results[i % 2][i / 2] == 0) != zero) {
        fail("rank %u: the result of warp %u is %llx", i % 2, i / 2, results[i % 2][i / 2]);
      }
    }
  };
  auto all = [&](const std::string& name, u32 warps, u32 in_blocks, bool zero, auto kernel) {
    world.launch(name, in_blocks, [&, kernel](const DevicePut& p) {
      if (own_lane() < warps) {
        kernel(p, run(p));
      }
    });
    world.launch(name + " is compared", 1, [&, warps, zero](const DevicePut& p) {
      if (p.rank == 0 && threadIdx.x == 0) {
        expect_results(warps, zero);
      }
    });
  };
  for (u32 step = 0; step < 2; step++) {
    all("ep4j_put_exchange", lanes, blocks, true, ep4j_put_exchange);
    all("ep4j_put_rounds", 1, blocks, false, ep4j_put_rounds);
    all("ep4j_put_stream", lanes, blocks, false, ep4j_put_stream);
  }
  machine.run();
}

void put_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  bool probes = first.once_in(4);
  Exchange mine{};
  now = &mine;
  mine.ranks = probes ? 2 : first.between(2, 4);
  u32 blocks = first.between(1, 2);
  mine.lanes = blocks * first.between(1, 3);
  mine.rounds = first.between(1, 5);
  mine.bytes = 16 * (first.once_in(4) ? first.between(200, 700) : first.between(1, 80));
  for (u32 r = 0; r < mine.ranks; r++) {
    mine.node.push_back(first.below(mine.ranks));
  }
  slow_rows = true;
  Machine machine(seed, 2 * mine.ranks);
  about += "ranks " + std::to_string(mine.ranks) + ", lanes " + std::to_string(mine.lanes) +
           " in blocks " + std::to_string(blocks) + ", rounds " + std::to_string(mine.rounds) +
           " of " + std::to_string(mine.bytes) + " bytes";
  PutWorld world(machine);
  if (probes) {
    run_probes(world, machine, blocks);
  } else {
    run_exchange(world, machine.random, blocks);
  }
}

const Worlds worlds = {{"put_world", put_case}};

}  // namespace emulator
