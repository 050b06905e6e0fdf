// The program of a world: `SEED CASES` runs the cases SEED, SEED + 1, ... and stops at the first
// failure with status 1 and a report.
#pragma once
#include <csignal>

#include "machine.hpp"

namespace emulator {

// Defined by the world.
void run_case(u64 seed);

}  // namespace emulator

int main(int count, char** arguments) {
  if (count != 3) {
    std::printf("usage: SEED CASES\n");
    return 2;
  }
  // An invalid address in a plain access, which ptx.cuh does not check.
  std::signal(SIGSEGV, [](int) { emulator::fail("a bad address"); });
  u64 seed = std::strtoull(arguments[1], nullptr, 10);
  u64 cases = std::strtoull(arguments[2], nullptr, 10);
  for (u64 i = 0; i < cases; i++) {
    emulator::about = "case " + std::to_string(seed + i) + ": ";
    emulator::run_case(seed + i);
  }
  std::printf("%llu cases passed\n", cases);
  return 0;
}
