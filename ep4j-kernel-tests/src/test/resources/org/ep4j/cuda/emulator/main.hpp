// The program of worlds: `SEED CASES [WORLD [RANKS...]]` runs the cases SEED, SEED + 1, ... of WORLD,
// by default or with `-` the first, and stops at the first failure with status 1 and a report. RANKS
// are those of each node; without them, a case draws them.
#pragma once
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "machine.hpp"

namespace emulator {

// A world and what runs its case of a seed.
using Worlds = std::vector<std::pair<const char*, void (*)(u64 seed)>>;

// Defined by the program.
extern const Worlds worlds;

inline void (*chosen(const char* name))(u64) {
  for (auto& [known, run_case] : worlds) {
    if (name == nullptr || std::strcmp(name, "-") == 0 || std::strcmp(name, known) == 0) {
      return run_case;
    }
  }
  return nullptr;
}

}  // namespace emulator

int main(int count, char** arguments) {
  auto run_case = emulator::chosen(count > 3 ? arguments[3] : nullptr);
  if (count < 3 || run_case == nullptr) {
    std::printf("usage: SEED CASES [WORLD [RANKS...]]\n");
    return 2;
  }
  // An invalid address in a plain access, which ptx.cuh does not check.
  std::signal(SIGSEGV, [](int) { emulator::fail("a bad address"); });
  for (int i = 4; i < count; i++) {
    emulator::node_sizes.push_back(std::atoi(arguments[i]));
  }
  u64 seed = std::strtoull(arguments[1], nullptr, 10);
  u64 cases = std::strtoull(arguments[2], nullptr, 10);
  for (u64 i = 0; i < cases; i++) {
    emulator::about = "case " + std::to_string(seed + i) + ": ";
    run_case(seed + i);
  }
  std::printf("%llu cases passed\n", cases);
  return 0;
}
