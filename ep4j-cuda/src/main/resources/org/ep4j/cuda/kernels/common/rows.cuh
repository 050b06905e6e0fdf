// Row copies. Each warp owns a ring of stages in shared memory: it loads a piece of a row into one
// stage while earlier pieces are still being stored, and stores a piece to all its destinations
// from the one copy. Without a tensor memory accelerator the warp copies with ordinary
// instructions.
#pragma once
#include "common/ptx.cuh"

// Destinations of one row: lane i holds the i-th and the 32 + i-th; null: none.
//
// A source of work has:
//   bool next()                    moves to the next row of this warp; false at the end, called no more
//   const char* row()              address of the row
//   char* destination(u32 round)   this lane's destination in round 0 or 1
// All lanes call all of them together.

constexpr u32 ROUNDS = 2;

// Stages of a warp: one loads, one stores, one is ready.
constexpr u32 STAGES = 3;

#if EP4J_TMA

struct Ring {
  char* stages;
  u64* barriers;
  u32 stage_bytes;

  // All lanes of the warp. `stages` is 128-byte aligned.
  __device__ __forceinline__ Ring(char* stages, u64* barriers, u32 stage_bytes)
      : stages(stages), barriers(barriers), stage_bytes(stage_bytes) {
    if (is_first_lane()) {
      for (u32 i = 0; i < STAGES; i++) {
        barrier_init(&barriers[i]);
      }
      barrier_init_done();
    }
    __syncwarp();
  }

  __device__ __forceinline__ void load(u32 step, const char* from, u32 bytes) {
    u32 s = step % STAGES;
    if (is_first_lane()) {
      barrier_expect(&barriers[s], bytes);
      bulk_load(stages + s * stage_bytes, from, bytes, &barriers[s]);
    }
  }

  __device__ __forceinline__ const char* arrived(u32 step) {
    u32 s = step % STAGES;
    barrier_wait(&barriers[s], step / STAGES & 1);
    return stages + s * stage_bytes;
  }
};

// Copies all rows of `work`. Returns when all writes have completed and no stage is in use. `first`:
// loads that the ring has made before.
template <class Work>
__device__ __forceinline__ void move_rows(Ring& ring, Work work, u32 row_bytes, u32 first = 0) {
  struct Piece {
    char* destinations[ROUNDS];
    u32 bytes;  // 0: no piece
  };
  Piece held[STAGES];  // loaded and not yet stored, oldest first
  u32 loaded = first;
  u32 at = row_bytes;  // bytes loaded of the newest row
  bool some = true;
  auto load = [&](Piece& piece) {
    if (at == row_bytes) {
      some = some && work.next();
      at = 0;
    }
    piece.bytes = some ? min(ring.stage_bytes, row_bytes - at) : 0;
    if (some) {
      ring.load(loaded++, work.row() + at, piece.bytes);
#pragma unroll
      for (u32 round = 0; round < ROUNDS; round++) {
        char* destination = work.destination(round);
        piece.destinations[round] = destination == nullptr ? nullptr : destination + at;
      }
      at += piece.bytes;
    }
  };
#pragma unroll
  for (u32 i = 0; i + 1 < STAGES; i++) {
    load(held[i]);
  }
  for (u32 step = first; held[0].bytes > 0; step++) {
    const char* stage = ring.arrived(step);
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      if (held[0].destinations[round] != nullptr) {
        bulk_store(held[0].destinations[round], stage, held[0].bytes);
      }
    }
    bulk_commit();
    // The next load reuses the stage of the previous step: its stores must have read it.
    bulk_wait_read<1>();
    __syncwarp();
    load(held[STAGES - 1]);
#pragma unroll
    for (u32 i = 0; i + 1 < STAGES; i++) {
      held[i] = held[i + 1];
    }
  }
  bulk_wait<0>();
  __syncwarp();
}

#else

struct Ring {
  __device__ __forceinline__ Ring(char*, u64*, u32) {}
};

template <class Work>
__device__ __forceinline__ void move_rows(Ring&, Work work, u32 row_bytes) {
  while (work.next()) {
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 mine = (u64)work.destination(round);
      for (u32 i = 0; i < 32; i++) {
        char* destination = (char*)__shfl_sync(0xffffffff, mine, i);
        if (destination != nullptr) {
          for (u32 at = lane_id() * 16; at < row_bytes; at += 512) {
            store_row(destination + at, load_row(work.row() + at));
          }
        }
      }
    }
  }
}

#endif

// Copies short runs of bytes with the widest unit that all lengths and addresses allow; `thread` of
// `threads` threads.
__device__ __forceinline__ void copy_bytes(char* to, const char* from, u64 bytes, u32 thread,
                                           u32 threads) {
  u64 all = (u64)to | (u64)from | bytes;
  if ((all & 15) == 0) {
    for (u64 i = thread; i < bytes / 16; i += threads) {
      ((uint4*)to)[i] = ((const uint4*)from)[i];
    }
  } else if ((all & 3) == 0) {
    for (u64 i = thread; i < bytes / 4; i += threads) {
      ((u32*)to)[i] = ((const u32*)from)[i];
    }
  } else {
    for (u64 i = thread; i < bytes; i += threads) {
      to[i] = from[i];
    }
  }
}
