// Rows in groups of equal room, whose numbers are on the GPU, as low latency delivers them.
#pragma once
#include "common/ptx.cuh"

// Blocks that share the rows of a group.
constexpr u32 SHARES = 16;

// Rows of a group of `places`, whatever a failed operation has left there.
__device__ __forceinline__ u32 rows_of(const int* counts, u64 group, u64 places) {
  i64 count = counts[group];
  return count < 0 ? 0 : (u32)min((u64)count, places);
}
