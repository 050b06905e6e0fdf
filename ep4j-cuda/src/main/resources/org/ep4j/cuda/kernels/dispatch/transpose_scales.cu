// Transposes the scales of received rows: [rows, columns], as peers wrote them, becomes [columns,
// length], each column aligned for the tensor memory accelerator.
//
// Roles: blocks take tiles of 32 rows and 32 columns through shared memory; lanes read along a row
// and write along a column. The last block publishes the ticket that the delivering kernel would
// have published. Budget: 256 threads a block; 4224 bytes of shared memory. Invariant: runs in the
// stream behind the kernel that delivers the rows, so all rows have arrived.
#include "common/kernel_lifecycle.cuh"
#include "structs/transpose_parameters.cuh"

constexpr u32 TILE = 32;
constexpr u32 COLUMN_BYTES = 16;  // a column is a multiple of this

template <class T>
__device__ __forceinline__ void transpose(const TransposeParameters& p, T (*tile)[TILE + 1]) {
  const T* from = (const T*)p.from;
  T* to = (T*)p.to;
  u64 rows = min((u64)*p.rows, p.limit);
  constexpr u64 UNIT = COLUMN_BYTES / sizeof(T);
  u64 length = ((p.fixed ? p.limit : rows) + UNIT - 1) / UNIT * UNIT;
  u64 across = (p.columns + TILE - 1) / TILE;
  u64 tiles = (rows + TILE - 1) / TILE * across;
  u32 lane = lane_id();
  for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    u64 row = t / across * TILE;
    u64 column = t % across * TILE;
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (row + i < rows && column + lane < p.columns) {
        tile[i][lane] = from[(row + i) * p.columns + column + lane];
      }
    }
    __syncthreads();
    for (u32 i = warp_id(); i < TILE; i += blockDim.x >> 5) {
      if (row + lane < rows && column + i < p.columns) {
        to[(column + i) * length + row + lane] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256)
    ep4j_transpose_scales(const __grid_constant__ TransposeParameters p) {
  __shared__ u32 words[TILE][TILE + 1];
  if (p.element_bytes == 1) {
    transpose<u8>(p, (u8(*)[TILE + 1])words);
  } else {
    transpose<u32>(p, words);
  }
  if (last_block(p.control) && threadIdx.x == 0) {
    p.control->arrived = 0;
    // As at the end of an epoch, but this kernel has none. A graph replays an old ticket: the word
    // must not decrease.
    if (p.receipt.ticket > p.control->ticket) {
      p.control->ticket = p.receipt.ticket;
      store_release_system(p.receipt.completed, p.receipt.ticket);
    }
  }
}
