// More ranks than a block has threads: start and end of an operation alone, on one rank. The other
// ranks are their regions: the world writes their words.
#pragma once
#include "dispatching.hpp"

namespace emulator {

constexpr u32 THREADS = 512;
constexpr u64 EPOCH = 1;

// The words of all ranks, as this rank sees them.
struct ManyRanks {
  Machine& machine;
  u32 ranks;
  u32 rank;
  u32 late;  // this rank waits for it
  u64 ready_offset;
  u64 done_offset;
  u64 places_offset;
  char** peers;
  Record* record;
  u64* completed;
  u64* host_abort;

  ManyRanks(Machine& machine, u32 ranks)
      : machine(machine),
        ranks(ranks),
        rank(machine.random.below(ranks)),
        late(machine.random.below(ranks)),
        ready_offset(sizeof(Control) + 8 * ranks),
        done_offset(ready_offset + 8 * ranks),
        places_offset(done_offset + 8 * ranks) {
    Memory& memory = machine.memory;
    peers = memory.allocate<char*>(ranks, "peers", 0);
    for (u32 r = 0; r < ranks; r++) {
      bool gone = r != rank && r != late && machine.random.once_in(8);
      peers[r] = gone ? nullptr : memory.zeroed<char>(places_offset + 16 * ranks, "region", EVERYBODY);
    }
    for (u32 r = 0; r < ranks; r++) {
      word(rank, ready_offset, r) = r != late && peers[r] != nullptr ? EPOCH : 0;
      word(rank, done_offset, r) = word(rank, ready_offset, r);
    }
    record = memory.zeroed<Record>(1, "record", EVERYBODY);
    completed = memory.zeroed<u64>(1, "completed", EVERYBODY);
    host_abort = memory.zeroed<u64>(1 + ranks, "host_abort", EVERYBODY);
  }

  u64& word(u32 at, u64 offset, u32 of) { return ((u64*)(peers[at] + offset))[of]; }

  // Where a rank has its rows.
  u64& place(u32 at, u32 of) { return word(at, places_offset, 2 * of); }

  Control& control() { return *(Control*)peers[rank]; }

  WaitContext context() {
    return make_wait_context((Control*)peers[rank], record, host_abort, PATIENT);
  }

  // All ranks that have a region have heard from this one.
  void check_told(u64 offset, const char* what) {
    for (u32 r = 0; r < ranks; r++) {
      if (peers[r] != nullptr && r != rank && word(r, offset, rank) != EPOCH) {
        fail("rank %u of %u has not heard `%s`", r, ranks, what);
      }
    }
  }

  // The kernel waits for the late rank until its word is there.
  void arrive_late(u64 offset, const char* what) {
    if (late != rank) {
      u64 end = machine.steps + (1u << 16);
      machine.run_while([&] { return machine.steps < end && !machine.is_idle(0); });
      if (machine.is_idle(0)) {
        fail("the kernel has not waited for `%s` of rank %u of %u", what, late, ranks);
      }
    }
    word(rank, offset, late) = EPOCH;
  }
};

inline void start_dispatch(ManyRanks& world) {
  DispatchParameters p{};
  p.peers = world.peers;
  p.rank = world.rank;
  p.ranks = world.ranks;
  p.ready_offset = world.ready_offset;
  p.done_offset = world.done_offset;
  p.cached = 1;
  p.matrix = world.machine.memory.zeroed<std::remove_pointer_t<decltype(p.matrix)>>(
      (size_t)world.ranks * (world.ranks + 4), "matrix", 0);
  p.receipt = Receipt{1, world.completed};
  Launch launch;
  launch.name = "cached dispatch without rows";
  launch.blocks = world.machine.random.between(1, 2);
  launch.threads = THREADS;
  launch.shared_bytes = 0;
  launch.body = [p, &world] {
    WaitContext w = world.context();
    publish_ready(p, w);
    await_ready(p, w);
    finish(p, w, false);
  };
  world.machine.enqueue(0, std::move(launch));
}

inline void run_dispatch(ManyRanks& world) {
  start_dispatch(world);
  world.arrive_late(world.ready_offset, "ready");
  world.arrive_late(world.done_offset, "done");
  world.machine.run();
  world.check_told(world.ready_offset, "ready");
  world.check_told(world.done_offset, "done");
}

// The late rank has closed its buffer. Before, another one does, for which the kernel does not wait.
inline void run_with_closed_rank(ManyRanks& world) {
  Machine& machine = world.machine;
  start_dispatch(world);
  world.host_abort[1 + (world.late + 1) % world.ranks] = 1;
  u64 end = machine.steps + (1u << 18);
  machine.run_while([&] { return machine.steps < end && !machine.is_idle(0); });
  if (machine.is_idle(0)) {
    fail("the kernel has not waited for rank %u, which has not closed", world.late);
  }
  world.host_abort[1 + world.late] = 1;
  machine.moved();
  machine.run();
  if (world.record->state != STATE_TIMEOUT || world.record->peer != world.late) {
    fail("the kernel reports state %llu of rank %llu, not that rank %u is missing",
         world.record->state, world.record->peer, world.late);
  }
}

inline void run_combine(ManyRanks& world) {
  combining::CombineParameters p{};
  p.peers = world.peers;
  p.rank = world.rank;
  p.ranks = world.ranks;
  p.ready_offset = world.ready_offset;
  Launch launch;
  launch.name = "start of a combine";
  launch.blocks = 2;
  launch.threads = THREADS;
  launch.shared_bytes = 0;
  launch.body = [p, &world] { combining::publish_rows_ready(p, world.context()); };
  world.machine.enqueue(0, std::move(launch));
  world.machine.run();
  world.check_told(world.ready_offset, "ready");
}

// A combine that pulls, of a rank without tokens. If `withdrawn` is a rank, it has given up before
// this one enters or, `late`, while it reads: then the end of the reading runs alone.
inline void run_pull(ManyRanks& world, u32 withdrawn, bool late) {
  combining::CombineParameters p{};
  p.peers = world.peers;
  p.rank = world.rank;
  p.ranks = world.ranks;
  p.ready_offset = world.ready_offset;
  p.done_offset = world.done_offset;
  p.places_offset = world.places_offset;
  p.rows_place = 4096;
  p.table_bytes = (16 * world.ranks + 127) / 128 * 128;
  p.slots = 2;
  p.slot_bytes = 16;
  p.timeout = PATIENT;
  p.record = world.record;
  p.host_abort = world.host_abort;
  p.receipt = Receipt{1, world.completed};
  for (u32 r = 0; r < world.ranks; r++) {
    if (world.peers[r] != nullptr) {
      world.place(world.rank, r) = r == withdrawn ? combining::WITHDRAWN : 4096;
    }
  }
  Launch launch;
  launch.name = "combine without tokens";
  launch.blocks = 2;
  launch.threads = THREADS;
  launch.shared_bytes = p.table_bytes + combining::PIPELINES * combining::PullRing::bytes(p);
  bool fails = withdrawn < world.ranks;
  if (late) {
    launch.blocks = 1;
    launch.body = [p, &world] { combining::end_reading(p, world.context(), true); };
    world.machine.enqueue(0, std::move(launch));
  } else {
    launch.body = [p] { combining::ep4j::combine_kernel_bf16(p); };
    world.machine.enqueue(0, std::move(launch));
    world.arrive_late(world.ready_offset, "ready");
    if (!fails) {
      world.arrive_late(world.done_offset, "done");
    }
  }
  world.machine.run();
  expect(world.control().failed, (u64)fails, "failed", world.rank);
  if (late) {
    return;
  }
  expect(*world.completed, (u64)1, "completed", world.rank);
  world.check_told(world.ready_offset, "ready");
  if (!fails) {
    world.check_told(world.done_offset, "done");
  }
  for (u32 r = 0; r < world.ranks; r++) {
    if (world.peers[r] != nullptr && r != world.rank) {
      expect(world.place(r, world.rank), fails ? combining::WITHDRAWN : p.rows_place, "place at", r);
    }
  }
}

inline void many_ranks_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  u32 ranks = first.between(THREADS + 1, 3 * THREADS);
  Machine machine(seed, 1);
  ManyRanks world(machine, ranks);
  about += std::to_string(ranks) + " ranks, rank " + std::to_string(world.rank) + ", late rank " +
           std::to_string(world.late);
  u32 other = world.late != world.rank ? world.late : ranks;
  switch (first.below(6)) {
    case 0:
      return run_combine(world);
    case 1:
      return run_dispatch(world);
    case 2:
      return run_pull(world, ranks, false);
    case 3:
      return run_pull(world, other, false);
    case 4:
      return run_pull(world, other, other < ranks);
    default:
      if (other == ranks) {
        return run_dispatch(world);
      }
      about += ", which closes its buffer";
      return run_with_closed_rank(world);
  }
}

}  // namespace emulator
