// Stable grouping: numbers each (item, key) pair among the pairs of its key, in item order. An item
// has few keys, all different. Used for tokens by rank and rows by expert.
#pragma once
#include "common/ptx.cuh"

// A block groups items in tiles of one item a thread of its first warps. In each tile
//   mark()          every thread marks the keys of its item,
//   close()         all threads: converts marks to numbers,
//   has()/number()  return them until the next tile's mark().
// After the last tile `running[key]` is the number of pairs of the key in the block.
struct Tiles {
  u32 keys;
  u32 warps;
  u32* running;  // [keys]
  u32* marks;    // [warps][keys], one bit a lane
  u32* before;   // [warps][keys], pairs in earlier tiles and earlier warps

  static __device__ __forceinline__ u32 words(u32 keys, u32 warps) { return keys * (1 + 2 * warps); }

  // All threads; `words` lies in shared memory.
  __device__ __forceinline__ Tiles(u32* words, u32 keys, u32 warps)
      : keys(keys), warps(warps), running(words), marks(words + keys), before(words + keys * (1 + warps)) {
    for (u32 k = threadIdx.x; k < keys; k += blockDim.x) {
      running[k] = 0;
    }
    clear();
    __syncthreads();
  }

  // All lanes. The first sync: no lane clears marks of the previous tile that another lane still
  // reads.
  __device__ __forceinline__ void clear() {
    __syncwarp();
    for (u32 k = lane_id(); warp_id() < warps && k < keys; k += 32) {
      marks[warp_id() * keys + k] = 0;
    }
    __syncwarp();
  }

  __device__ __forceinline__ void mark(u32 key) {
    atomicOr(&marks[warp_id() * keys + key], 1u << lane_id());
  }

  __device__ __forceinline__ void close() {
    __syncthreads();
    for (u32 k = threadIdx.x; k < keys; k += blockDim.x) {
      u32 sum = running[k];
      for (u32 w = 0; w < warps; w++) {
        before[w * keys + k] = sum;
        sum += __popc(marks[w * keys + k]);
      }
      running[k] = sum;
    }
    __syncthreads();
  }

  __device__ __forceinline__ bool has(u32 key) const {
    return marks[warp_id() * keys + key] >> lane_id() & 1;
  }

  __device__ __forceinline__ u32 number(u32 key) const {
    u32 earlier = marks[warp_id() * keys + key] & ((1u << lane_id()) - 1);
    return before[warp_id() * keys + key] + __popc(earlier);
  }
};
