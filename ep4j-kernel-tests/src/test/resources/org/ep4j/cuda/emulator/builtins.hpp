// The parts of the CUDA language that the kernels use and C++ lacks.
#pragma once
#include <cmath>
#include <type_traits>
#include "machine.hpp"

// After all headers of the library, which use some of these names themselves.
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (emulator::Index{emulator::running->number})
#define blockIdx (emulator::Index{emulator::running->block->number})
#define blockDim (emulator::Index{(u32)emulator::running->block->threads.size()})
#define gridDim (emulator::Index{emulator::running->block->kernel->launch.blocks})

namespace emulator {

struct Index {
  u32 x;
};

template <class T>
u64 to_word(T value) {
  u64 word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
T from_word(u64 word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Another thread may run before the change: the order of changes is undefined.
template <class T, class Change>
T change(T* at, const char* name, Change next) {
  yield_fiber();
  check(at, sizeof *at, name);
  T before = *at;
  *at = next(before);
  Machine::the->moved();
  return before;
}

}  // namespace emulator

struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }

inline void __syncwarp(u32 mask = 0xffffffff) { emulator::exchange(mask, 0, "__syncwarp"); }

inline u32 __ballot_sync(u32 mask, bool mine) {
  const u64* all = emulator::exchange(mask, mine, "__ballot_sync");
  u32 votes = 0;
  for (u32 i = 0; i < 32; i++) {
    votes |= (u32)(all[i] != 0) << i;
  }
  return votes;
}

inline bool __any_sync(u32 mask, bool mine) { return __ballot_sync(mask, mine) != 0; }
inline bool __all_sync(u32 mask, bool mine) { return __ballot_sync(mask, mine) == 0xffffffff; }

template <class T>
T __shfl_sync(u32 mask, T mine, u32 lane) {
  const u64* all = emulator::exchange(mask, emulator::to_word(mine), "__shfl_sync");
  return emulator::from_word<T>(all[lane % 32]);
}

template <class T>
T __shfl_up_sync(u32 mask, T mine, u32 lanes) {
  u32 lane = emulator::running->number % 32;
  const u64* all = emulator::exchange(mask, emulator::to_word(mine), "__shfl_up_sync");
  return emulator::from_word<T>(all[lane >= lanes ? lane - lanes : lane]);
}

template <class T>
T __shfl_down_sync(u32 mask, T mine, u32 lanes) {
  u32 lane = emulator::running->number % 32;
  const u64* all = emulator::exchange(mask, emulator::to_word(mine), "__shfl_down_sync");
  return emulator::from_word<T>(all[lane + lanes < 32 ? lane + lanes : lane]);
}

template <class T>
T __shfl_xor_sync(u32 mask, T mine, u32 lanes) {
  u32 lane = emulator::running->number % 32;
  const u64* all = emulator::exchange(mask, emulator::to_word(mine), "__shfl_xor_sync");
  return emulator::from_word<T>(all[(lane ^ lanes) % 32]);
}

inline u32 __match_any_sync(u32 mask, u32 mine) {
  const u64* all = emulator::exchange(mask, mine, "__match_any_sync");
  u32 same = 0;
  for (u32 i = 0; i < 32; i++) {
    same |= (u32)((u32)all[i] == mine) << i;
  }
  return same;
}

inline u32 __reduce_and_sync(u32 mask, u32 mine) {
  const u64* all = emulator::exchange(mask, mine, "__reduce_and_sync");
  u32 bits = ~0u;
  for (u32 i = 0; i < 32; i++) {
    bits &= (u32)all[i];
  }
  return bits;
}

inline u32 __reduce_add_sync(u32 mask, u32 mine) {
  const u64* all = emulator::exchange(mask, mine, "__reduce_add_sync");
  u32 sum = 0;
  for (u32 i = 0; i < 32; i++) {
    sum += (u32)all[i];
  }
  return sum;
}

inline u32 __reduce_min_sync(u32 mask, u32 mine) {
  const u64* all = emulator::exchange(mask, mine, "__reduce_min_sync");
  return (u32)*std::min_element(all, all + 32);
}

inline u32 __reduce_max_sync(u32 mask, u32 mine) {
  const u64* all = emulator::exchange(mask, mine, "__reduce_max_sync");
  return (u32)*std::max_element(all, all + 32);
}

inline bool __syncthreads_or(bool mine) { return emulator::meet_block(mine); }
inline void __syncthreads() { emulator::meet_block(false); }

template <class T, class V>
T atomicAdd(T* at, V value) {
  return emulator::change(at, "atomicAdd", [&](T before) { return before + (T)value; });
}

template <class T, class V>
T atomicOr(T* at, V value) {
  return emulator::change(at, "atomicOr", [&](T before) { return before | (T)value; });
}

template <class T, class V>
T atomicMax(T* at, V value) {
  return emulator::change(at, "atomicMax",
                          [&](T before) { return before < (T)value ? (T)value : before; });
}

template <class T, class V>
T atomicExch(T* at, V value) {
  return emulator::change(at, "atomicExch", [&](T) { return (T)value; });
}

// Memory is sequentially consistent here, but a fence takes time, in which other threads run.
inline void __threadfence_block() { emulator::yield_fiber(); }
inline void __threadfence() { emulator::yield_fiber(); }
inline void __threadfence_system() { emulator::yield_fiber(); }

template <class T>
T __ldcg(const T* at) {
  emulator::check(at, sizeof *at, "__ldcg");
  return *at;
}

inline int __popc(u32 bits) { return __builtin_popcount(bits); }
inline int __ffs(u32 bits) { return __builtin_ffs((int)bits); }
inline float __uint_as_float(u32 bits) { return emulator::from_word<float>(bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline u32 __float_as_uint(float value) { return (u32)emulator::to_word(value); }

template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return (std::common_type_t<A, B>)a < (std::common_type_t<A, B>)b ? a : b;
}

template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return (std::common_type_t<A, B>)a > (std::common_type_t<A, B>)b ? a : b;
}
