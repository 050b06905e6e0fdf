// Transposes the scales of received rows: [rows, columns], as peers wrote them, becomes [columns,
// length], each column aligned for the tensor memory accelerator.
//
// Roles: blocks take tiles of 32 rows and 32 columns. The last block publishes the ticket that the
// delivering kernel would have published. Budget: 256 threads a block; 4224 bytes of shared memory.
// Invariant: runs in the stream behind the kernel that delivers the rows, so all rows have arrived.
#include "common/kernel_lifecycle.cuh"
#include "dispatch/transposed_tiles.cuh"
#include "structs/transpose_parameters.cuh"

constexpr u32 COLUMN_BYTES = 16;  // a column is a multiple of this

template <class T>
__device__ __forceinline__ void transpose(const TransposeParameters& p, T (*tile)[TILE + 1]) {
  u64 rows = min((u64)*p.rows, p.limit);
  constexpr u64 UNIT = COLUMN_BYTES / sizeof(T);
  u64 length = ((p.fixed ? p.limit : rows) + UNIT - 1) / UNIT * UNIT;
  transpose_tiles(Matrix<const T>{(const T*)p.from, p.columns}, Matrix<T>{(T*)p.to, length}, rows, p.columns,
                  tile);
}

namespace ep4j {

__global__ void __launch_bounds__(256)
    transpose_scales_kernel(const __grid_constant__ TransposeParameters p) {
  __shared__ u32 words[TILE][TILE + 1];
  if (p.element_bytes == 1) {
    transpose<u8>(p, (u8(*)[TILE + 1])words);
  } else {
    transpose<u32>(p, words);
  }
  if (last_block(p.control) && is_first_thread()) {
    p.control->arrived = 0;
    // As at the end of an epoch, but this kernel has none. A graph replays an old ticket: the word
    // must not decrease.
    if (p.receipt.ticket > p.control->ticket) {
      p.control->ticket = p.receipt.ticket;
      store_release_system(p.receipt.completed, p.receipt.ticket);
    }
  }
}

}  // namespace ep4j
