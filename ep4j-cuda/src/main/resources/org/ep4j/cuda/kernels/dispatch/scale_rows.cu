// Turns scales that the caller gives by columns into rows: [columns, length] becomes [tokens, columns].
//
// Roles: blocks take tiles of 32 tokens and 32 columns. Budget: 256 threads a block; 4224 bytes of
// shared memory. Invariant: runs in the stream in front of the kernel that sends the rows, and accesses
// memory of this rank only.
#include "dispatch/transposed_tiles.cuh"
#include "structs/scale_rows_parameters.cuh"

template <class T>
__device__ __forceinline__ void to_rows(const ScaleRowsParameters& p, T (*tile)[TILE + 1]) {
  transpose_tiles(Matrix<const T>{(const T*)p.from, p.length}, Matrix<T>{(T*)p.to, p.columns}, p.columns,
                  p.tokens, tile);
}

namespace ep4j {

__global__ void __launch_bounds__(256)
    scale_rows_kernel(const __grid_constant__ ScaleRowsParameters p) {
  __shared__ u32 words[TILE][TILE + 1];
  if (p.element_bytes == 1) {
    to_rows<u8>(p, (u8(*)[TILE + 1])words);
  } else {
    to_rows<u32>(p, words);
  }
}

}  // namespace ep4j
