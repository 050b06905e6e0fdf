// Transposes a matrix in tiles of 32 rows and 32 columns through shared memory: lanes read along a row
// and write along a column, which is a row of the result.
#pragma once
#include "common/ptx.cuh"

constexpr u32 TILE = 32;

template <class T>
struct Matrix {
  T* at;
  u64 stride;  // between rows, in elements
};

// `from` has this many rows and columns. All blocks of 256 threads; `tile` is shared memory.
template <class T>
__device__ __forceinline__ void transpose_tiles(Matrix<const T> from, Matrix<T> to, u64 rows, u64 columns,
                                                T (*tile)[TILE + 1]) {
  u64 across = (columns + TILE - 1) / TILE;
  u64 tiles = (rows + TILE - 1) / TILE * across;
  u32 lane = lane_id();
  for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    u64 row = t / across * TILE;
    u64 column = t % across * TILE;
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (row + i < rows && column + lane < columns) {
        tile[i][lane] = from.at[(row + i) * from.stride + column + lane];
      }
    }
    __syncthreads();
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (row + lane < rows && column + i < columns) {
        to.at[(column + i) * to.stride + row + lane] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}
