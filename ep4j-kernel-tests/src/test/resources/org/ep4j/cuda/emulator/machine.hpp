// GPUs that run kernels: one a rank, each with a stream. Threads are fibers; the next one to run is
// drawn from a seed, and some blocks and kernels are delayed, so that a case is repeatable and
// finds orders that are rare on a GPU.
//
// Not modelled: weak memory order (a store is visible to all threads at once), the fences that the
// asynchronous proxy needs, diverged warps that reconverge by masks (collectives take whole warps),
// and time: nothing is fast or slow, and clocks count steps.
#pragma once
#include "threads.hpp"

namespace emulator {

inline Thread* running = nullptr;

class Machine {
 public:
  Random random;
  Memory memory;
  u64 steps = 0;

  Machine(u64 seed, u32 ranks) : schedule(ranks) {
    random.engine.seed(seed);
    the = this;
    caller = who;
  }

  ~Machine() {
    for (auto& stream : schedule) {
      discard(stream.running.get());
    }
    the = nullptr;
    caller = nullptr;
  }

  inline static Machine* the = nullptr;

  void enqueue(u32 rank, Launch launch) { schedule[rank].waiting.push_back(std::move(launch)); }

  // A rank pauses once its threads have run `after` steps: for `steps` steps of the machine, or
  // FOREVER. `then` runs at the start of the pause.
  void put_to_sleep(u32 rank, u64 after, u64 steps, std::function<void()> then) {
    schedule[rank].sleep = Sleep{after, steps, 0, std::move(then)};
  }

  // The process of a rank is stopped after some launches: kernels in flight continue, the next
  // launch follows once the process resumes.
  void stop(u32 rank, u64 launches) { schedule[rank].launches = launches; }
  void go_on(u32 rank) { schedule[rank].launches = FOREVER; }

  bool has_waiting(u32 rank) const { return !schedule[rank].waiting.empty(); }
  u32 waiting(u32 rank) const { return (u32)schedule[rank].waiting.size(); }
  const std::string& next(u32 rank) const { return schedule[rank].waiting.front().name; }
  bool is_idle(u32 rank) const { return schedule[rank].is_idle(); }

  // All deadlines on a rank pass.
  void skip(u32 rank) { skip(rank, 2 * PATIENT); }

  // Time passes on a rank.
  void skip(u32 rank, u64 time) { schedule[rank].skipped += time; }

  // From now on time passes only where it is skipped.
  void stop_clocks() { clocks_stand = true; }

  // The clock of the running thread's rank.
  u64 now() const {
    return (clocks_stand ? 0 : steps) + schedule[running->block->kernel->rank].skipped;
  }

  // Runs until all threads wait for a rank that is stopped: much longer than a thread takes to see a store.
  // Between nodes waits are atomic operations, which count as stores.
  void run_until_all_wait() {
    u64 end = steps + 5 * STILL;
    run_while([&] { return steps - last_move < STILL && steps < end; });
  }

  // Launches before the stop continue; the other ranks wait for the rest until their deadlines.
  void lose(u32 rank) {
    auto others_run = [&] {
      u32 busy = 0;
      for (u32 r = 0; r < schedule.size(); r++) {
        busy += r != rank && !schedule[r].is_idle();
      }
      return busy > 0;
    };
    while (others_run()) {
      u64 timeout = steps + (1u << random.between(10, 20));
      run_while([&] { return steps < timeout && others_run(); });
      for (u32 r = 0; r < schedule.size(); r++) {
        if (r != rank) {
          skip(r);
        }
      }
    }
  }

  // Memory of a rank that other ranks also write.
  void belongs(u32 rank, const char* at, u64 bytes) { owners.push_back({rank, at, at + bytes}); }

  // From now on a store by this rank's kernels into memory of another rank is a failure.
  void fenced(u32 rank) { schedule[rank].fenced = true; }

  // From now on only one rank may write these bytes.
  void reserve(u32 writer, const char* at, u64 bytes) { reserved[at] = {writer, at, at + bytes}; }

  // Checks a store of a rank, by its kernels or its wire.
  void check_writer(u32 rank, const void* at) const {
    auto found = reserved.upper_bound((const char*)at);
    if (found != reserved.begin() && at < (--found)->second.end && found->second.rank != rank) {
      fail("rank %u writes what is rank %u's: %s", rank, found->second.rank, memory.describe(at).c_str());
    }
  }

  // Checks a store by the running thread.
  void check_store(const void* at) const {
    u32 rank = (u32)running->block->kernel->rank;
    check_writer(rank, at);
    if (!schedule[rank].fenced) {
      return;
    }
    for (const Owner& owner : owners) {
      if (owner.rank != rank && at >= owner.begin && at < owner.end) {
        fail("a fenced rank writes: %s", memory.describe(at).c_str());
      }
    }
  }

  bool is_dead(u32 rank) const { return schedule[rank].sleep.until == FOREVER; }
  bool is_asleep(u32 rank) const { return schedule[rank].sleep.until > steps; }

  // Records a change that other threads may wait for.
  void moved() { last_move = steps; }

  // Runs until all streams are empty.
  void run() {
    run_while([] { return true; });
  }

  // The same, while `wanted()` is true.
  void run_while(const std::function<bool()>& wanted) {
    std::vector<Stream*> busy;
    for (auto& stream : schedule) {
      busy.push_back(&stream);
    }
    while (!busy.empty() && wanted()) {
      u32 i = random.below((u32)busy.size());
      Stream& stream = *busy[i];
      if (stream.sleep.until == FOREVER) {
        busy.erase(busy.begin() + i);
      } else if (stream.sleep.until > steps) {
        // Time passes, whichever thread runs.
        steps += SLEEP;
        moved();
      } else if (stream.running == nullptr && !stream.is_idle()) {
        begin(stream, (int)(&stream - schedule.data()));
      } else if (stream.running != nullptr) {
        step(stream);
      } else {
        busy.erase(busy.begin() + i);
      }
      if (steps - last_move > MAX_IDLE) {
        report_hang();
      }
    }
    memory.check_guards();
  }

 private:
  // Steps without a store or a delay after which the machine reports a hang. A thread in a failing
  // wait reads the clock at every 256th poll, and a poll of packets takes some 10 steps of each
  // thread: if all of 8 ranks with 3 blocks wait for a dead rank, some 40 million steps pass.
  static constexpr u64 MAX_IDLE = 64000000;

  // Steps without a store after which each thread has polled many times.
  static constexpr u64 STILL = 2000000;

  // Steps of each poll of a sleeping stream.
  static constexpr u64 SLEEP = 32;

  struct Owner {
    u32 rank;
    const char* begin;
    const char* end;
  };

  std::vector<Stream> schedule;
  std::vector<Owner> owners;
  std::map<const char*, Owner> reserved;
  u64 last_move = 0;
  bool clocks_stand = false;

  // Turns of its stream for which a block or a kernel is delayed. All others poll meanwhile: of many
  // streams shorter, but still about as long as a kernel.
  u32 delay() { return random.timeout() >> (schedule.size() > 32 ? 3 : 0); }

  void begin(Stream& stream, int rank) {
    stream.running = std::make_unique<Kernel>();
    Kernel& kernel = *stream.running;
    kernel.rank = rank;
    kernel.launch = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    stream.launches -= stream.launches == FOREVER ? 0 : 1;
    kernel.held = delay();
    for (u32 b = 0; b < kernel.launch.blocks; b++) {
      auto block = std::make_unique<Block>();
      block->kernel = &kernel;
      block->number = b;
      block->held = delay();
      block->shared = memory.allocate(kernel.launch.shared_bytes, "shared memory", rank);
      block->warps.resize(kernel.launch.threads / LANES);
      block->threads.resize(kernel.launch.threads);
      for (u32 t = 0; t < kernel.launch.threads; t++) {
        block->threads[t].block = block.get();
        block->threads[t].number = t;
        block->threads[t].fiber = Fiber::take(&kernel.launch.body);
      }
      kernel.blocks.push_back(std::move(block));
    }
  }

  // Runs some warps of a randomly drawn block.
  void step(Stream& stream) {
    Kernel& kernel = *stream.running;
    Block& block = *kernel.blocks[random.below((u32)kernel.blocks.size())];
    u32& held = kernel.held > 0 ? kernel.held : block.held;
    if (held > 0) {
      held--;
      moved();
      return;
    }
    if (kernel.launch.blocks == ended(kernel)) {
      if (kernel.launch.then) {
        kernel.launch.then();
      }
      stream.running = nullptr;
      moved();
      return;
    }
    if (block.done) {
      return;
    }
    u32 warps = (u32)block.warps.size();
    for (u32 rounds = 1u << random.below(5); rounds > 0; rounds--) {
      Thread* first = &block.threads[random.below(warps) * LANES];
      for (Thread* thread = first; thread < first + LANES; thread++) {
        if (thread->can_run()) {
          thread->waits = nullptr;
          running = thread;
          steps++;
          thread->fiber->resume();
          running = nullptr;
          tire(stream.sleep);
        }
      }
      if (stream.sleep.until > steps) {
        return;
      }
    }
    if (std::all_of(block.threads.begin(), block.threads.end(),
                    [](const Thread& thread) { return thread.fiber->is_done(); })) {
      end(block);
    }
  }

  // Fibers of dead ranks.
  static void discard(Kernel* kernel) {
    for (u32 b = 0; kernel != nullptr && b < kernel->blocks.size(); b++) {
      for (Thread& thread : kernel->blocks[b]->threads) {
        if (!kernel->blocks[b]->done) {
          Fiber::discard(thread.fiber);
        }
      }
    }
  }

  void tire(Sleep& sleep) {
    if (sleep.after != FOREVER && sleep.after-- == 0) {
      sleep.after = FOREVER;
      sleep.until = sleep.steps == FOREVER ? FOREVER : steps + sleep.steps;
      sleep.then();
    }
  }

  static u32 ended(const Kernel& kernel) {
    return (u32)std::count_if(kernel.blocks.begin(), kernel.blocks.end(),
                              [](const auto& block) { return block->done; });
  }

  void end(Block& block) {
    if (!block.loads.empty()) {
      fail("%s: a block ended before its bulk loads", block.kernel->launch.name.c_str());
    }
    for (Thread& thread : block.threads) {
      if (!thread.stores.empty()) {
        fail("%s: a thread ended before its bulk stores", block.kernel->launch.name.c_str());
      }
      Fiber::put_back(thread.fiber);
    }
    memory.release(block.shared);
    for (auto& [key, at] : block.statics) {
      memory.release(at);
    }
    block.done = true;
    // The caller continues some time after the last block.
    block.kernel->held = delay();
    moved();
  }

  static std::string who() {
    if (running == nullptr) {
      return "";
    }
    const Block& block = *running->block;
    return "\n  by rank " + std::to_string(block.kernel->rank) + ", " + block.kernel->launch.name +
           ", block " + std::to_string(block.number) + ", thread " + std::to_string(running->number);
  }

  static std::string state(const Memory& memory, const Thread& thread) {
    if (thread.fiber->is_done()) {
      return "done";
    }
    if (!thread.can_run()) {
      return std::string("waits in ") + thread.waits->name;
    }
    return thread.polled == nullptr ? "runs" : "reads " + memory.describe(thread.polled);
  }

  [[noreturn]] void report_hang() {
    std::string text = "HANG\n";
    for (auto& stream : schedule) {
      for (size_t b = 0; stream.running != nullptr && b < stream.running->blocks.size(); b++) {
        Block& block = *stream.running->blocks[b];
        text += "rank " + std::to_string(stream.running->rank) + ", " + stream.running->launch.name +
                ", block " + std::to_string(b) + (block.done ? ": done\n" : "\n");
        for (u32 w = 0; !block.done && w < block.warps.size(); w++) {
          std::map<std::string, u32> states;
          for (u32 lane = 0; lane < LANES; lane++) {
            states[state(memory, block.threads[w * LANES + lane])]++;
          }
          text += "  warp " + std::to_string(w);
          for (auto& [what, lanes] : states) {
            text += "; " + std::to_string(lanes) + " lanes: " + what;
          }
          text += "\n";
        }
      }
    }
    fail("%s", text.c_str());
  }
};

// --- operations of a running thread ------------------------------------------------------------

inline void yield_fiber() { Fiber::yield_fiber(); }

inline void check(const void* at, size_t bytes, const char* what) {
  Machine::the->memory.check(at, bytes, running->block->kernel->rank, what);
}

// Replace the declarations of shared memory in kernels: dynamic memory of the block,
inline char* dynamic_shared() { return running->block->shared; }

// and variables, by name.
template <class T>
T& static_shared(const char* name) {
  char*& at = running->block->statics[name];
  if (at == nullptr) {
    at = Machine::the->memory.allocate(sizeof(T), name, running->block->kernel->rank);
  }
  return *(T*)at;
}

// Replaces a constant in kernels of a world that mixes layouts.
inline bool rank_major() { return running->block->kernel->launch.rank_major; }

// Replaces a constant of low latency between nodes: words of a group for the blocks that publish it.
inline u32 units = 32;

// Selects a mistake there: the first of the blocks that share a word publishes it.
inline bool hasty = false;

inline bool coin() { return Machine::the->random.once_in(2); }

// Waits until `all` threads have arrived; returns the generation that this thread arrived in.
inline u64 sync(SyncPoint& point, u32 all, const char* name) {
  u64 generation = point.generation;
  if (point.arrived == 0) {
    point.name = name;
  } else if (std::strcmp(point.name, name) != 0) {
    fail("threads of one barrier wait in %s and in %s", point.name, name);
  }
  if (++point.arrived == all) {
    point.arrived = 0;
    point.generation++;
  } else {
    running->waits = &point;
    running->generation = generation;
    yield_fiber();
  }
  return generation;
}

// The values of all lanes of the warp. A lane can be at most one generation ahead of another, so
// two sets suffice.
inline const u64* exchange(u32 mask, u64 mine, const char* name) {
  if (mask != 0xffffffff) {
    fail("%s of part of a warp: the emulator supports whole warps only", name);
  }
  SyncPoint& warp = running->block->warps[running->number / LANES];
  warp.values[warp.generation & 1][running->number % LANES] = mine;
  return warp.values[sync(warp, LANES, name) & 1];
}

// Counts this thread among `all` arrivals, without waiting for the others.
inline void arrive(SyncPoint& point, u32 all, const char* name) {
  point.name = name;
  if (++point.arrived == all) {
    point.arrived = 0;
    point.generation++;
  }
  Machine::the->moved();
}

inline bool meet_block(bool mine) {
  Block& block = *running->block;
  SyncPoint& all = block.all;
  bool& any = all.any[all.generation & 1];
  any = (all.arrived > 0 && any) || mine;
  return all.any[sync(all, (u32)block.threads.size(), "__syncthreads") & 1];
}

}  // namespace emulator
