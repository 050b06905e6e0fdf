// The contents of a stream, down to the single thread, and random numbers.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include "fibers.hpp"
#include "memory.hpp"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

namespace emulator {

struct Random {
  std::mt19937_64 engine;

  u32 below(u32 n) { return (u32)(engine() % n); }
  u32 between(u32 low, u32 high) { return low + below(high - low + 1); }
  bool once_in(u32 n) { return below(n) == 0; }

  // Mostly small, rarely large.
  u32 timeout() { return once_in(3) ? below(1u << below(12)) : 0; }
};

constexpr u32 LANES = 32;

// A barrier of threads: arrivals and their values.
struct SyncPoint {
  u64 generation = 0;
  u32 arrived = 0;
  const char* name = "";
  u64 values[2][LANES];  // of a warp, by the parity of the generation
  bool any[2];           // of a block
};

struct Block;

// Packets that a warp stores or loads by one instruction: the share of each lane.
struct Lines {
  static constexpr u32 BYTES = 128;
  void* at[LANES];
  char held[LANES][16];
  u64 done[LANES];  // generation of the last packet that begins with this lane
};

// A bulk store of a thread, in a group: executed at once or as late as the thread's waits allow.
struct LateStore {
  u64 group;
  void* to;
  const void* from;
  u32 bytes;
  bool read;
  std::vector<char> held;
};

struct Thread {
  Block* block;
  u32 number;
  Fiber* fiber;
  SyncPoint* waits = nullptr;  // until its generation has passed
  u64 generation = 0;
  const void* polled = nullptr;  // the word that it read last
  u64 groups = 0;                // committed
  std::vector<LateStore> stores;

  bool can_run() const {
    return !fiber->is_done() && (waits == nullptr || waits->generation != generation);
  }
};

struct LateLoad {
  void* to;
  const void* from;
  u32 bytes;
  u64* barrier;
};

struct Kernel;

struct Block {
  Kernel* kernel;
  u32 number;
  std::vector<Thread> threads;
  std::vector<SyncPoint> warps;
  std::map<u32, Lines> lines;  // by warp
  SyncPoint all;
  SyncPoint barriers[16];
  char* shared;
  std::map<std::string, char*> statics;
  std::vector<LateLoad> loads;
  u32 held;
  bool done = false;
};

// A launch in a stream.
struct Launch {
  std::string name;
  u32 blocks;
  u32 threads;
  size_t shared_bytes;
  std::function<void()> body;
  std::function<void()> then;  // the caller, some time after the end and before the next launch
  bool rank_major = false;       // low latency, where a world mixes layouts
};

struct Kernel {
  int rank;
  Launch launch;
  std::vector<std::unique_ptr<Block>> blocks;
  u32 held;
};

constexpr u64 FOREVER = ~0ull;

// A deadline that no wait misses unless time is skipped.
constexpr u64 PATIENT = 1ull << 40;

// A pause of a stream: it starts once its threads have run `after` steps and lasts until step
// `until` of the machine.
struct Sleep {
  u64 after = FOREVER;
  u64 steps = 0;
  u64 until = 0;
  std::function<void()> then;
};

struct Stream {
  Sleep sleep;
  std::deque<Launch> waiting;
  std::unique_ptr<Kernel> running;
  u64 launches = FOREVER;  // before its process is stopped
  bool fenced = false;
  u64 skipped = 0;  // lead of its clock

  // No kernel runs, and none will.
  bool is_idle() const { return running == nullptr && (waiting.empty() || launches == 0); }
};

}  // namespace emulator
