// The matrix of a handle, u32 [ranks + 4][ranks]: how many rows each rank has sent to each rank, then rows of
// sums and limits, so that no block of a later kernel has to read them all. Writer: the dispatch that makes
// the handle; readers: cached dispatches and combines.
#pragma once
#include "common/ptx.cuh"

// The rows behind those of the ranks.
enum MatrixRow {
  ROW_LIMITS,   // slots of each rank
  ROW_TOKENS,   // tokens of each rank; only between nodes
  ROW_BEFORE,   // rows at each rank of the ranks before this one
  ROW_RETURNS   // rows of each rank at the ranks before this one, without those that it holds itself
};

// Of a dispatch or a combine.
template <class Parameters>
__device__ __forceinline__ auto matrix_row(const Parameters& p, MatrixRow row) {
  return p.matrix + (p.ranks + row) * p.ranks;
}
