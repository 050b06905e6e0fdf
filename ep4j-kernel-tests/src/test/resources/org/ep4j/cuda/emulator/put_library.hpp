// A library whose device functions carry puts of kernels: it reads sources late, in parts, and
// guarantees only the order within a context, whose signals follow earlier puts to the same peer.
#pragma once
#include "machine.hpp"

namespace emulator {

// A rank's state in the library: `library` of its device functions.
struct PutLibrary {
  struct Task {
    u32 peer;
    bool signals;
    u64 target, source, bytes;  // of a put
    u64 number, value;          // of a signal
    u64 ticket;
    bool started = false;
  };

  u32 rank;
  char* window;
  u64 window_bytes;
  u64* words;       // EVERYBODY; null: the library counts separately
  u32 signals;      // numbers
  u64 tickets = 0;  // number of tasks so far
  std::vector<std::vector<Task>> queues;  // by context
  std::vector<u64> counts;                // [contexts, signals] of this rank
  std::vector<u32> rest;                  // [contexts] turns to skip
  std::vector<PutLibrary*>* all;          // by rank

  // Executes some tasks; returns whether more are left.
  bool carry_some(Random& random) {
    bool more = false;
    for (u32 context = 0; context < queues.size(); context++) {
      auto& queue = queues[context];
      if (!queue.empty() && rests(context, random)) {
        more = true;
        continue;
      }
      for (u32 steps = random.below(6); steps > 0 && !queue.empty(); steps--) {
        u32 i = random.once_in(2) ? 0 : random.below((u32)queue.size());
        bool overtakes = false;
        for (u32 j = 0; j < i; j++) {
          overtakes |= queue[i].signals && queue[j].peer == queue[i].peer;
        }
        if (!overtakes && (queue[i].signals ? grow(context, queue[i]) : put(queue[i]))) {
          queue.erase(queue.begin() + i);
        }
      }
      more |= !queue.empty();
    }
    return more;
  }

 private:
  // A context skips turns, sometimes many, so that other contexts overtake it.
  bool rests(u32 context, Random& random) {
    if (rest[context] == 0) {
      rest[context] = random.once_in(6) ? random.below(60) : 0;
      return false;
    }
    rest[context]--;
    Machine::the->moved();
    return true;
  }

  bool grow(u32 context, const Task& task) {
    PutLibrary& there = *(*all)[task.peer];
    (there.words != nullptr ? there.words[task.number]
                            : there.counts[context * signals + task.number]) += task.value;
    Machine::the->moved();
    return true;
  }

  bool put(Task& task) {
    u64 half = task.bytes / 32 * 16;
    u64 from = task.started ? half : 0;
    u64 to = task.started ? task.bytes : half;
    std::memcpy((*all)[task.peer]->window + task.target + from, window + task.source + from, to - from);
    Machine::the->moved();
    bool done = task.started;
    task.started = true;
    return done;
  }
};

// The libraries of all ranks.
class PutLibraries {
 public:
  explicit PutLibraries(Machine& machine) : machine(machine) {
    counts_apart = machine.random.once_in(2);
    contexts = machine.random.between(1, 4);
  }

  // Adds the next rank, whose window ends with the signal words; returns the argument of its device
  // functions.
  u64 add(char* window, u64 bytes, u32 signals) {
    auto mine = std::make_unique<PutLibrary>();
    mine->rank = (u32)all.size();
    mine->window = window;
    mine->window_bytes = bytes + signals * 8;
    mine->words = counts_apart ? nullptr : (u64*)(window + bytes);
    mine->signals = signals;
    mine->queues.resize(contexts);
    mine->rest.resize(contexts);
    mine->counts.resize(contexts * signals);
    mine->all = &all;
    all.push_back(mine.get());
    libraries.push_back(std::move(mine));
    return (u64)all.back();
  }

  // Runs the libraries on streams behind those of the GPUs, as long as `busy`.
  void start(std::function<bool()> busy) {
    for (u32 r = 0; r < all.size(); r++) {
      machine.enqueue((u32)all.size() + r, {"library", 1, LANES, 0, [=, this] { drive(r, busy); }, {}});
    }
  }

  u64 library_count(u32 rank, u32 signal) const {
    u64 sum = 0;
    for (u32 i = 0; i < contexts; i++) {
      sum += all[rank]->counts[i * all[rank]->signals + signal];
    }
    return sum;
  }

 private:
  Machine& machine;
  bool counts_apart;
  u32 contexts;
  std::vector<std::unique_ptr<PutLibrary>> libraries;
  std::vector<PutLibrary*> all;

  void drive(u32 r, const std::function<bool()>& busy) {
    while (threadIdx.x == 0) {
      bool goes_on = busy();
      if (!all[r]->carry_some(machine.random) && !goes_on) {
        return;
      }
      yield_fiber();
    }
  }
};

inline PutLibrary& library_of(u64 library, u64 window) {
  PutLibrary& mine = *(PutLibrary*)library;
  if ((char*)window != mine.window || mine.rank != (u32)running->block->kernel->rank) {
    fail("this is not the window of the rank's library");
  }
  return mine;
}

inline void submit(PutLibrary& mine, u32 lane, PutLibrary::Task task) {
  task.ticket = mine.tickets++;
  mine.queues[lane % mine.queues.size()].push_back(task);
  Machine::the->moved();
}

}  // namespace emulator

// --- interface for kernels (library.cuh); whole warps, except for the last function
// -----------------

void ep4j_library_put(u64 library, u64 window, u32 lane, u32 peer, u64 target, u64 source, u64 bytes) {
  emulator::PutLibrary& mine = emulator::library_of(library, window);
  if (target + bytes > mine.window_bytes || source + bytes > mine.window_bytes) {
    emulator::fail("a put of %llu bytes from %llu to %llu", bytes, source, target);
  }
  __syncwarp();
  if (lane_id() == 0) {
    emulator::submit(mine, lane, {peer, false, target, source, bytes, 0, 0});
  }
}

void ep4j_library_signal(u64 library, u64 window, u64 words, u32 lane, u32 peer, u32 signal, u64 value) {
  emulator::PutLibrary& mine = emulator::library_of(library, window);
  if (words != mine.window_bytes - mine.signals * 8 || signal >= mine.signals) {
    emulator::fail("signal %u, whose words are at %llu", signal, words);
  }
  __syncwarp();
  if (lane_id() == 0) {
    emulator::submit(mine, lane, {peer, true, 0, 0, 0, signal, value});
  }
}

// Waits until earlier puts of the context have been read; a signal behind them may still be in
// flight.
void ep4j_library_flush(u64 library, u32 lane) {
  auto& mine = *(emulator::PutLibrary*)library;
  auto& queue = mine.queues[lane % mine.queues.size()];
  __syncwarp();
  u64 before = mine.tickets;
  while (std::any_of(queue.begin(), queue.end(), [&](const auto& task) {
    return !task.signals && task.ticket < before;
  })) {
    emulator::running->polled = nullptr;
    emulator::yield_fiber();
  }
  __syncwarp();
}

u64 ep4j_library_signals(u64 library, u32 signal) {
  auto& mine = *(emulator::PutLibrary*)library;
  emulator::yield_fiber();
  u64 sum = 0;
  for (u64 context = 0; context < mine.queues.size(); context++) {
    sum += mine.counts[context * mine.signals + signal];
  }
  return sum;
}
