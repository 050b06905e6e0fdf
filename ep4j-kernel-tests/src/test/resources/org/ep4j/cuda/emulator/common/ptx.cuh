// The machine instructions of the kernels' ptx.cuh on the emulated machine, under the same names.
// At every access to a shared word other threads may run. Bulk copies happen at once or as late as
// the kernel's waits allow: a missing wait reads garbage.
#pragma once
#include "builtins.hpp"
#include "pairs.hpp"

#define EP4J_TMA 1
// As on GPUs without an instruction that rounds to FP8.
#define EP4J_E4M3 0

#include "common/lanes.cuh"

// --- words that several blocks or GPUs share -------------------------------------------------

namespace emulator {

inline u64 load(const u64* at) {
  running->polled = at;
  yield_fiber();
  check(at, sizeof *at, "load");
  return *at;
}

inline void store(u64* at, u64 value) {
  check(at, sizeof *at, "store");
  Machine::the->check_store(at);
  *at = value;
  Machine::the->moved();
  yield_fiber();
}

}  // namespace emulator

inline u64 load_acquire_system(const u64* at) { return emulator::load(at); }
inline u64 load_acquire_gpu(const u64* at) { return emulator::load(at); }
inline u64 load_acquire_block(const u64* at) { return emulator::load(at); }
inline void store_release_block(u64* at, u64 value) { emulator::store(at, value); }
inline u64 load_relaxed_system(const u64* at) { return emulator::load(at); }
inline void store_release_system(u64* at, u64 value) { emulator::store(at, value); }
inline void store_release_gpu(u64* at, u64 value) { emulator::store(at, value); }
inline void store_relaxed_system(u64* at, u64 value) { emulator::store(at, value); }
inline void add_release_system(u64* at, u64 value) {
  emulator::change(at, "add_release_system", [&](u64 before) { return before + value; });
}

// Either of the two is stored first.
inline void store_pair_relaxed_system(u64* at, u64 first, u64 second) {
  if (((u64)at & 15) != 0) {
    emulator::fail("store_pair: addresses are multiples of 16");
  }
  bool ahead = emulator::coin();
  emulator::store(at + ahead, ahead ? second : first);
  emulator::store(at + !ahead, ahead ? first : second);
}

// Kernels of a rank run one after the other here.
inline void await_previous_kernel() {}
inline void launch_dependent_kernels() {}

inline void barrier_sync(u32 barrier, u32 threads) {
  emulator::sync(emulator::running->block->barriers[barrier], threads, "barrier");
}

inline void barrier_arrive(u32 barrier, u32 threads) {
  emulator::arrive(emulator::running->block->barriers[barrier], threads, "barrier");
}

inline u64 nanoseconds() { return emulator::Machine::the->now(); }

// --- rows read once or written once ----------------------------------------------------------

inline uint4 load_row(const void* at) {
  emulator::check(at, sizeof(uint4), "load_row");
  return *(const uint4*)at;
}

namespace emulator {

// Whether other threads may run between the row stores of a lane, for worlds where lanes share
// rows.
inline bool slow_rows = false;

}  // namespace emulator

inline void store_row(void* at, uint4 v) {
  if (emulator::slow_rows && emulator::coin()) {
    emulator::Machine::the->moved();
    emulator::yield_fiber();
  }
  emulator::check(at, sizeof v, "store_row");
  emulator::Machine::the->check_store(at);
  *(uint4*)at = v;
}

inline void store_half_vector(void* at, uint2 v) {
  emulator::check(at, sizeof v, "store_half_vector");
  emulator::Machine::the->check_store(at);
  if (((u64)at & 7) != 0) {
    emulator::fail("store_half_vector: addresses are multiples of 8");
  }
  *(uint2*)at = v;
}

// --- packets of 128 bytes ---------------------------------------------------------------------

namespace emulator {

// Moves a packet as a whole when the first of its lanes resumes; packets of one instruction move at
// different times.
template <class T>
void pass_line(void* at, T& v, bool mine, bool stores) {
  constexpr u32 EACH = Lines::BYTES / sizeof(T);
  u32 lane = running->number % LANES;
  Lines& lines = running->block->lines[running->number / LANES];
  lines.at[lane] = mine ? at : nullptr;
  std::memcpy(lines.held[lane], &v, sizeof v);
  if (mine && !stores) {
    running->polled = at;
  }
  exchange(0xffffffff, 0, "a packet");
  u64 generation = running->block->warps[running->number / LANES].generation;
  u32 first = lane / EACH * EACH;
  if (lines.done[first] != generation) {
    lines.done[first] = generation;
    char* line = (char*)lines.at[first];
    if (((u64)line & (Lines::BYTES - 1)) != 0) {
      fail("a packet is not aligned to its size");
    }
    if (line != nullptr) {
      check(line, Lines::BYTES, stores ? "store_packet" : "load_packet");
    }
    for (u32 i = 0; i < EACH; i++) {
      if (lines.at[first + i] != (line == nullptr ? nullptr : line + i * sizeof(T))) {
        fail("lane %u has a different packet than lane %u", first + i, first);
      }
      if (line != nullptr) {
        char* held = lines.held[first + i];
        std::memcpy(stores ? line + i * sizeof(T) : held, stores ? held : line + i * sizeof(T),
                    sizeof(T));
      }
    }
    if (stores && line != nullptr) {
      Machine::the->check_store(line);
      Machine::the->moved();
    }
  }
  std::memcpy(&v, lines.held[lane], sizeof v);
}

}  // namespace emulator

template <class T>
void store_packet(void* at, T v, bool mine) {
  emulator::pass_line(at, v, mine, true);
}

template <class T>
void load_packet(T& v, const void* at, bool mine) {
  emulator::pass_line((void*)at, v, mine, false);
}

// --- bulk copies -----------------------------------------------------------------------------

namespace emulator {

// A barrier: missing bytes (32 bits; more may have arrived than are expected so far), missing
// arrivals (8), arrivals of each phase (8), the phase.
constexpr u64 ARRIVAL = 1ull << 32;
constexpr u64 EACH_PHASE = 1ull << 40;
constexpr u32 PHASE = 48;

inline u64 of_barrier(u64 phase, u64 arrivals) {
  return phase << PHASE | arrivals * EACH_PHASE | arrivals * ARRIVAL;
}

inline void move_on(u64* barrier) {
  if ((*barrier / ARRIVAL & 0xff) == 0 && (u32)*barrier == 0) {
    *barrier = of_barrier((*barrier >> PHASE) + 1, *barrier / EACH_PHASE & 0xff);
  }
}

inline void arrive_at(u64* barrier, u32 bytes) {
  *barrier -= ARRIVAL;
  *barrier = *barrier >> 32 << 32 | (u32)((u32)*barrier + bytes);
  move_on(barrier);
}

inline void add_missing(u64* barrier, u32 bytes) {
  *barrier = *barrier >> 32 << 32 | (u32)((u32)*barrier + bytes);
  move_on(barrier);
}

inline void finish_load(const LateLoad& load) {
  std::memcpy(load.to, load.from, load.bytes);
  add_missing(load.barrier, 0 - load.bytes);
}

inline void check_bulk(const void* to, const void* from, u32 bytes, const char* name) {
  check(to, bytes, name);
  check(from, bytes, name);
  if ((((u64)to | (u64)from | bytes) & 15) != 0) {
    fail("%s: addresses and sizes are multiples of 16", name);
  }
}

inline void read_now(LateStore& store) {
  if (!store.read) {
    store.held.assign((const char*)store.from, (const char*)store.from + store.bytes);
    store.read = true;
  }
}

inline void write_now(LateStore& store) {
  read_now(store);
  Machine::the->check_store(store.to);
  std::memcpy(store.to, store.held.data(), store.bytes);
  Machine::the->moved();
}

// Completes the stores of all groups except the newest: always read, written if required or by
// chance.
inline void finish_stores(u64 newest, bool written) {
  auto& stores = running->stores;
  std::erase_if(stores, [&](LateStore& store) {
    if (store.group + newest >= running->groups) {
      return false;
    }
    read_now(store);
    if (!written && coin()) {
      return false;
    }
    write_now(store);
    return true;
  });
}

}  // namespace emulator

inline void barrier_init(u64* barrier, u32 arrivals = 1) {
  emulator::check(barrier, sizeof *barrier, "barrier_init");
  *barrier = emulator::of_barrier(0, arrivals);
}

inline void barrier_init_done() {}

inline void barrier_expect(u64* barrier, u32 bytes) { emulator::arrive_at(barrier, bytes); }

inline void barrier_arrive(u64* barrier) { emulator::arrive_at(barrier, 0); }

inline void barrier_wait(u64* barrier, u32 parity) {
  while ((*barrier >> emulator::PHASE & 1) == parity) {
    std::erase_if(emulator::running->block->loads, [&](const emulator::LateLoad& load) {
      if (load.barrier != barrier || emulator::coin()) {
        return false;
      }
      emulator::finish_load(load);
      return true;
    });
    emulator::running->polled = barrier;
    emulator::yield_fiber();
  }
}

inline void bulk_load(void* to, const void* from, u32 bytes, u64* barrier) {
  emulator::check_bulk(to, from, bytes, "bulk_load");
  emulator::LateLoad load{to, from, bytes, barrier};
  if (emulator::coin()) {
    emulator::finish_load(load);
  } else {
    std::memset(to, 0xee, bytes);
    emulator::running->block->loads.push_back(load);
  }
}

inline void bulk_store(void* to, const void* from, u32 bytes) {
  emulator::check_bulk(to, from, bytes, "bulk_store");
  emulator::LateStore store{emulator::running->groups, to, from, bytes, false, {}};
  if (emulator::coin()) {
    emulator::write_now(store);
  } else {
    emulator::running->stores.push_back(std::move(store));
  }
}

inline void bulk_commit() { emulator::running->groups++; }

template <int N>
void bulk_wait_read() {
  emulator::finish_stores(N, false);
}

template <int N>
void bulk_wait() {
  emulator::finish_stores(N, true);
}

inline void fence_proxy() {}
