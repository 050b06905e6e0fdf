// Loops over words in memory. Sequential latencies would add up to more than the rest of a kernel's
// start takes, so a thread has several loads under way.
#pragma once
#include "common/ptx.cuh"

// Loads `n` values, round robin over `threads` threads, and passes each to `use` with its number. A
// thread issues several loads before it uses the first, so that it waits once for all of them.
template <u32 UNROLL = 4, class Load, class Use>
__device__ __forceinline__ void for_each_loaded(u32 n, u32 thread, u32 threads, Load load, Use use) {
  for (u32 first = thread; first < n; first += UNROLL * threads) {
    decltype(load(0u)) held[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      // Near the end some threads load the last value again.
      held[j] = load(min(first + j * threads, n - 1));
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      if (first + j * threads < n) {
        use(first + j * threads, held[j]);
      }
    }
  }
}

// The largest of `n` words; one warp.
__device__ __forceinline__ u32 largest_of(const u32* words, u32 n) {
  u32 largest = 0;
  for (u32 i = lane_id(); i < n; i += 32) {
    largest = max(largest, words[i]);
  }
  return __reduce_max_sync(0xffffffff, largest);
}

// Calls use(i, sum of the values before i, value i) for each of `n` values; one warp.
template <class Load, class Use>
__device__ __forceinline__ void scan_loaded(u32 n, Load load, Use use) {
  u32 start = 0;
  for (u32 first = 0; first < n; first += 32) {
    u32 i = first + lane_id();
    u32 value = i < n ? load(i) : 0;
    u32 end = value;
    for (u32 step = 1; step < 32; step *= 2) {
      u32 before = __shfl_up_sync(0xffffffff, end, step);
      end += lane_id() >= step ? before : 0;
    }
    if (i < n) {
      use(i, start + end - value, value);
    }
    start += __shfl_sync(0xffffffff, end, 31);
  }
}
