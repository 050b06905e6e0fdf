// Checks of what kernels count of a rank that comes late. The clocks stand, but for one moment, in which
// all other ranks wait for it, or for ranks that wait for it: then LATE passes.
#pragma once
#include "machine.hpp"

namespace emulator {

class ObservedWaits {
 public:
  static constexpr u64 LATE = PATIENT / 4;

  ObservedWaits(Machine& machine, u32 ranks) : machine(machine), ranks(ranks) { machine.stop_clocks(); }

  // A rank, with its number of local experts: kernels publish windows from the next operations on.
  void add(u32 rank, Control* control, u32 experts) {
    Rank one{rank, control, nullptr, machine.random.between(15, 19), experts};
    u64 words = sizeof(ObservedWindows) / 8 + WINDOWS * (WINDOW_WORDS + ranks + experts);
    one.windows = (ObservedWindows*)machine.memory.zeroed<u64>(words, "windows", (int)rank);
    control->windows = one.windows;
    control->observed_words = ranks + experts;
    control->operations = one.before;
    all.push_back(one);
  }

  // Operations are enqueued on all ranks; the late one is stopped in front of the last.
  void run(u32 late) {
    machine.run_until_all_wait();
    for (const Rank& one : all) {
      for (u32 s = 0; s < ranks; s++) {
        expect_waited(one, s, waited(one, s) == 0, "0, since no rank is late yet");
      }
    }
    for (const Rank& one : all) {
      machine.skip(one.rank, LATE);
    }
    machine.go_on(late);
    machine.run();
  }

  // `all_wait`: in the last operation each rank waits for each other one as soon as it enters.
  void check(u32 late, bool all_wait) const {
    for (const Rank& one : all) {
      for (u32 s = 0; s < ranks; s++) {
        u64 time = waited(one, s);
        if (one.rank == late) {
          expect_waited(one, s, time == 0, "0");
        } else if (all_wait) {
          expect_waited(one, s, time == (s == late ? LATE : 0), s == late ? "the delay" : "0");
        } else {
          // Also for its own blocks, which wait for the late rank.
          expect_waited(one, s, time == 0 || time == LATE, "0 or the delay");
        }
      }
      check_window(one);
    }
  }

  // Tokens of a local expert.
  u64 tokens(u32 rank, u32 local) const {
    for (const Rank& one : all) {
      if (one.rank == rank) {
        return observed_words(one.control)[ranks + local];
      }
    }
    return 0;
  }

 private:
  struct Rank {
    u32 rank;
    Control* control;
    ObservedWindows* windows;
    u64 before;  // operations
    u32 experts;
  };

  Machine& machine;
  u32 ranks;
  std::vector<Rank> all;

  static u64 waited(const Rank& one, u32 s) { return observed_words(one.control)[s]; }

  static void expect_waited(const Rank& one, u32 s, bool right, const char* expected) {
    if (!right) {
      fail("rank %u has waited %llu for rank %u, expected %s", one.rank, waited(one, s), s, expected);
    }
  }

  // The window that the operation with number 20 completes, and the next one reports.
  void check_window(const Rank& one) const {
    u64 operations = one.control->operations;
    expect(operations > one.before, true, "counted operations", one.rank);
    expect(one.windows->complete, (operations - 1) / WINDOW, "complete windows", one.rank);
    if (operations < WINDOW) {
      return;
    }
    const u64* record = (const u64*)(one.windows + 1);
    for (u32 i = 0; i < ranks + one.experts; i++) {
      u64 now = observed_words(one.control)[i];
      bool last = operations == WINDOW;
      expect(last ? record[WINDOW_WORDS + i] == now : record[WINDOW_WORDS + i] <= now, true, "word of a window",
             one.rank, i);
    }
    if (operations == WINDOW) {
      expect(record[WINDOW_ROWS], one.control->rows_received, "rows of a window", one.rank);
    }
  }
};

}  // namespace emulator
