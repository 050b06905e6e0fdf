// Memory of a block through which a warp reads what lies in memory of the host. That is far away, and
// beside what this GPU writes there a load takes ten microseconds, so much must be under way at once:
// more than registers hold.
#pragma once
#include "ptx.cuh"
#include "sums.cuh"

struct LoadStage {
  char* stage;   // shared memory, aligned to 16 bytes
  u32 bytes;
  u64* barrier;  // shared memory
  u32 step = 0;

  // All lanes.
  __device__ __forceinline__ LoadStage(char* stage, u32 bytes, u64* barrier)
      : stage(stage), bytes(bytes), barrier(barrier) {
#if EP4J_TMA
    if (lane_id() == 0) {
      barrier_init(barrier);
      barrier_init_done();
    }
#endif
    __syncwarp();
  }

  // Bytes of a piece, a multiple of `unit`, a power of two of at most 32, so that one of each of so many
  // rows (at most 64) fits.
  __device__ __forceinline__ u32 piece(u32 rows, u32 unit) const {
    u32 each = bytes / rows;
    return each >= 512 ? each / 512 * 512 : each / unit * unit;
  }

  // All lanes: `length` bytes, a multiple of 16, from `offset` on of `count` of the rows: all but the
  // `skipped` from number `skip` on. They are there when it returns, and until the next call.
  __device__ __forceinline__ StagedRows take(const char* const* rows, u32 count, u32 skip,
                                             u32 skipped, u32 offset, u32 length) {
#if EP4J_TMA
    // What was there has been read by all lanes.
    fence_proxy();
    __syncwarp();
    if (lane_id() == 0) {
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
