// A warp's ring of stages in shared memory for rows that go to slots or come from them: as Ring in
// rows.cuh, but a stage may be filled in parts, and steps continue from one slot to the next.
#pragma once
#include "common/rows.cuh"

// All lanes call all functions together. A step loads one stage and then stores from it, in order:
// load(); load(); then for each step arrived(), store(), release(), and one more load().
struct StagePipeline {
  char* stages;
  u64* barriers;
  u32 stage_bytes;
  u32 loaded = 0;
  u32 step = 0;

  static constexpr u32 AHEAD = STAGES - 1;

  // `stages` is 128-byte aligned.
  __device__ __forceinline__ StagePipeline(char* stages, u64* barriers, u32 stage_bytes)
      : stages(stages), barriers(barriers), stage_bytes(stage_bytes) {
#if EP4J_TMA
    if (is_first_lane()) {
      for (u32 i = 0; i < STAGES; i++) {
        barrier_init(&barriers[i]);
      }
      barrier_init_done();
    }
#endif
    __syncwarp();
  }

  // The stage that is loaded next. Lanes write into it before fence_written().
  __device__ __forceinline__ char* next() const { return stages + loaded % STAGES * stage_bytes; }

  __device__ __forceinline__ void fence_written() const {
    fence_proxy();
    __syncwarp();
  }

  // Loads into that stage, at `offset`.
  __device__ __forceinline__ void load(u32 offset, const char* from, u32 bytes) {
#if EP4J_TMA
    if (is_first_lane()) {
      u64* barrier = &barriers[loaded % STAGES];
      barrier_expect(barrier, bytes);
      bulk_load(next() + offset, from, bytes, barrier);
    }
#else
    for (u32 at = lane_id() * 16; at < bytes; at += 512) {
      *(uint4*)(next() + offset + at) = load_row(from + at);
    }
#endif
    loaded++;
  }

  __device__ __forceinline__ const char* arrived() const {
#if EP4J_TMA
    barrier_wait(&barriers[step % STAGES], step / STAGES & 1);
#else
    __syncwarp();
#endif
    return stages + step % STAGES * stage_bytes;
  }

  // Stores to this lane's destination; null: none.
  __device__ __forceinline__ void store(char* destination, const char* from, u32 bytes) const {
#if EP4J_TMA
    if (destination != nullptr) {
      bulk_store(destination, from, bytes);
    }
#else
    for (u32 lane = 0; lane < 32; lane++) {
      char* to = (char*)__shfl_sync(0xffffffff, (u64)destination, lane);
      for (u32 at = lane_id() * 16; to != nullptr && at < bytes; at += 512) {
        store_row(to + at, *(const uint4*)(from + at));
      }
    }
#endif
  }

  // Ends the step: the stage of the previous step may be loaded again.
  __device__ __forceinline__ void release() {
#if EP4J_TMA
    bulk_commit();
    bulk_wait_read<1>();
#endif
    __syncwarp();
    step++;
  }

  // Waits until all stores have completed.
  __device__ __forceinline__ void drain() const {
#if EP4J_TMA
    bulk_wait<0>();
#endif
    fence_proxy();
    __syncwarp();
  }
};
