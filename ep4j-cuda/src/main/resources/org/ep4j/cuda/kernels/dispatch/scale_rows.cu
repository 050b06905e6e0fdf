// Turns scales that the caller gives by columns into rows: [columns, length] becomes [tokens, columns].
//
// Roles: blocks take tiles of 32 tokens and 32 columns through shared memory; lanes read along a
// column and write along a row. Budget: 256 threads a block; 4224 bytes of shared memory. Invariant:
// runs in the stream in front of the kernel that sends the rows, and accesses memory of this rank only.
#include "common/ptx.cuh"
#include "structs/scale_rows_parameters.cuh"

constexpr u32 TILE = 32;

template <class T>
__device__ __forceinline__ void to_rows(const ScaleRowsParameters& p, T (*tile)[TILE + 1]) {
  const T* from = (const T*)p.from;
  T* to = (T*)p.to;
  u64 across = (p.columns + TILE - 1) / TILE;
  u64 tiles = (p.tokens + TILE - 1) / TILE * across;
  u32 lane = lane_id();
  for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    u64 token = t / across * TILE;
    u64 column = t % across * TILE;
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (column + i < p.columns && token + lane < p.tokens) {
        tile[i][lane] = from[(column + i) * p.length + token + lane];
      }
    }
    __syncthreads();
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (token + i < p.tokens && column + lane < p.columns) {
        to[(token + i) * p.columns + column + lane] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256)
    ep4j_scale_rows(const __grid_constant__ ScaleRowsParameters p) {
  __shared__ u32 words[TILE][TILE + 1];
  if (p.element_bytes == 1) {
    to_rows<u8>(p, (u8(*)[TILE + 1])words);
  } else {
    to_rows<u32>(p, words);
  }
}
