// A library whose device functions carry what kernels put: it reads sources late, in parts, and knows
// no order but that of a context, whose signals come after the puts to the same peer before them.
#pragma once
#include "machine.hpp"

namespace emulator {

// What the library has of a rank: `library` of its device functions.
struct PutLibrary {
  struct Task {
    u32 peer;
    bool signals;
    u64 target, source, bytes;  // of a put
    u64 number, value;          // of a signal
    u64 ticket;
    bool begun = false;
  };

  u32 rank;
  char* window;
  u64 window_bytes;
  u64* words;       // EVERYBODY; null: the library counts apart from them
  u32 signals;      // numbers
  u64 tickets = 0;  // tasks so far
  std::vector<std::vector<Task>> queues;  // by context
  std::vector<u64> counts;                // [contexts, signals] of this rank
  std::vector<PutLibrary*>* all;          // by rank

  // Carries out some tasks, and says whether there are more.
  bool carry_some(Random& random) {
    bool more = false;
    for (u32 context = 0; context < queues.size(); context++) {
      auto& queue = queues[context];
      for (u32 turns = random.below(6); turns > 0 && !queue.empty(); turns--) {
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
  bool grow(u32 context, const Task& task) {
    PutLibrary& there = *(*all)[task.peer];
    (there.words != nullptr ? there.words[task.number]
                            : there.counts[context * signals + task.number]) += task.value;
    Machine::the->moved();
    return true;
  }

  bool put(Task& task) {
    u64 half = task.bytes / 32 * 16;
    u64 from = task.begun ? half : 0;
    u64 to = task.begun ? task.bytes : half;
    std::memcpy((*all)[task.peer]->window + task.target + from, window + task.source + from, to - from);
    Machine::the->moved();
    bool done = task.begun;
    task.begun = true;
    return done;
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

// --- what device_put.cuh calls; whole warps, but for the last ------------------------------------

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

// Until what was put on the context before has been read; a signal behind it may still be on its way.
void ep4j_library_flush(u64 library, u32 lane) {
  auto& mine = *(emulator::PutLibrary*)library;
  auto& queue = mine.queues[lane % mine.queues.size()];
  __syncwarp();
  u64 before = mine.tickets;
  while (std::any_of(queue.begin(), queue.end(), [&](const auto& task) {
    return !task.signals && task.ticket < before;
  })) {
    emulator::running->polled = nullptr;
    emulator::give_way();
  }
  __syncwarp();
}

u64 ep4j_library_signals(u64 library, u32 signal) {
  auto& mine = *(emulator::PutLibrary*)library;
  emulator::give_way();
  u64 sum = 0;
  for (u64 context = 0; context < mine.queues.size(); context++) {
    sum += mine.counts[context * mine.signals + signal];
  }
  return sum;
}
