// Kernels of a module as a library: KERNELS is their file. A kernel runs as a GPU's only one, over memory
// of the host that the emulator does not know: the caller checks its bounds.
#include "common/ptx.cuh"

#include KERNELS

#include <mutex>

namespace emulator {

template <u64>
using Word = u64;

template <u64... I>
void call(const void* kernel, const u64* words, std::integer_sequence<u64, I...>) {
  ((void (*)(Word<I>...))kernel)(words[I]...);
}

}  // namespace emulator

// Integers and addresses of eight bytes are passed alike.
#define EP4J_CALL(n)                                                             \
  extern "C" void ep4j_call_##n(const void* kernel, const u64* words) {          \
    emulator::call(kernel, words, std::make_integer_sequence<u64, n>());         \
  }
EP4J_CALL(3)
EP4J_CALL(4)
EP4J_CALL(5)
EP4J_CALL(6)
EP4J_CALL(7)
EP4J_CALL(8)
EP4J_CALL(9)
EP4J_CALL(13)

extern "C" void ep4j_emulate(u64 seed, void (*call)(const void*, const u64*), const void* kernel, u32 blocks,
                             u32 threads, u64 shared_bytes, const u64* words) {
  static std::mutex one;
  std::lock_guard<std::mutex> guard(one);
  emulator::Machine machine(seed, 1);
  machine.memory.has_foreign = true;
  emulator::Launch launch{"a kernel", blocks, threads, shared_bytes};
  launch.body = [=] { call(kernel, words); };
  machine.enqueue(0, std::move(launch));
  machine.run();
}
