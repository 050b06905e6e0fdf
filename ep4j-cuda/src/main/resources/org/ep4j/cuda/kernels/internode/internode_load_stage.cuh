// Shared memory through which a warp reads host memory. Beside this GPU's writes to host memory a
// load takes ten microseconds, so more loads must be in flight than registers can hold.
#pragma once
#include "common/rows.cuh"
#include "combine/sums.cuh"

struct LoadStage {
  char* stage;   // shared memory, 16-byte aligned
  u32 bytes;
  u64* barrier;  // shared memory
  u32 step = 0;

  // All lanes.
  __device__ __forceinline__ LoadStage(char* stage, u32 bytes, u64* barrier)
      : stage(stage), bytes(bytes), barrier(barrier) {
#if EP4J_TMA
    if (is_first_lane()) {
      barrier_init(barrier);
      barrier_init_done();
    }
#endif
    __syncwarp();
  }

  // Bytes of a piece, such that one piece of each of `rows` rows (at most 64) fits: a multiple of
  // `unit`, a power of two of at most 32.
  __device__ __forceinline__ u32 piece(u32 rows, u32 unit) const {
    u32 each = bytes / rows;
    return each >= 512 ? each / 512 * 512 : each / unit * unit;
  }

  // All lanes: loads `length` bytes, a multiple of 16, at `offset` of `count` rows: all rows except
  // the `skipped` from number `skip` on. The bytes are valid from the return until the next call.
  __device__ __forceinline__ StagedRows take(const char* const* rows, u32 count, u32 skip,
                                             u32 skipped, u32 offset, u32 length) {
#if EP4J_TMA
    // All lanes have read the previous content.
    fence_proxy();
    __syncwarp();
    if (is_first_lane()) {
      barrier_expect(barrier, count * length);
    }
    __syncwarp();
    for (u32 i = lane_id(); i < count; i += 32) {
      bulk_load(stage + i * length, rows[i < skip ? i : i + skipped] + offset, length, barrier);
    }
    barrier_wait(barrier, step & 1);
    step++;
#else
    __syncwarp();
    for (u32 i = 0; i < count; i++) {
      for (u32 at = lane_id() * 16; at < length; at += 512) {
        *(uint4*)(stage + i * length + at) = load_row(rows[i < skip ? i : i + skipped] + offset + at);
      }
    }
    __syncwarp();
#endif
    return StagedRows{stage, length};
  }
};
