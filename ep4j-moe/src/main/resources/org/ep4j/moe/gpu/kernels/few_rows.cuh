// Products of few rows by a matrix of weights for each expert: out = rows · weightsᵀ, in BF16 with sums in
// FP32. The numbers of rows are read from device memory, so a graph can hold the product.
//
//   work        an expert and a slice of SLICE columns of its result: a block
//   weights     read once for up to ROWS rows; this stream of memory is what the kernel waits for
//   stage       TERMS terms of the slice's weights and of the rows in shared memory; STAGES - 1 stages are
//               under way while one is multiplied
//   warp w      columns 16 w to 16 w + 15 of the slice, for all rows: the left factor of its multiply-adds
//               are weights, so that the few rows are the short side of a tile
//
// Budget: 128 threads a block, 48 KB of shared memory: four blocks an SM keep 64 KB of weights under way.
// Invariant: what lies outside of rows, columns or terms is zero in shared memory, so sums need no guards.
// Vectors of eight terms, 16 bytes: vector v of line l lies at v ^ (l & 7), so that the lanes of a warp
// read all banks.
#pragma once
#include "moe/groups.cuh"
#include "moe/tensor_cores.cuh"

constexpr u32 SLICE = 64;
constexpr u32 ROWS = 64;
constexpr u32 TERMS = 64;
constexpr u32 STAGES = 3;
constexpr u32 THREADS = 128;

// Rows of a tile of multiply-adds.
constexpr u32 TILE = 8;

// Vectors of a line of a stage.
constexpr u32 LINE = TERMS / 8;

struct FewRowsStage {
  uint4 weights[SLICE * LINE];
  uint4 rows[ROWS * LINE];
};

// Lines of a factor: their first element, their number, and how many elements each has.
struct FactorLines {
  const u16* first;
  u32 count;
  u32 terms;
};

// Lines between those that a thread copies; its vector of each line is the same, and so is line & 7.
constexpr u32 APART = THREADS / LINE;

// What a thread copies of a factor in each stage.
struct Copies {
  const u16* from;  // its vector of its first line, of the first stage
  u64 stride;       // elements between its lines
  u32 to;           // place of its first vector in the stage
  u32 lines;        // of the factor; those beyond become zeros
  u32 terms;        // from its vector on
};

__device__ __forceinline__ Copies copies_of(const FactorLines& factor) {
  u32 line = threadIdx.x / LINE;
  u32 vector = threadIdx.x % LINE;
  u32 lines = factor.count > line ? (factor.count - line + APART - 1) / APART : 0;
  u32 terms = factor.terms > vector * 8 ? factor.terms - vector * 8 : 0;
  return {factor.first + (u64)line * factor.terms + vector * 8, (u64)APART * factor.terms,
          line * LINE + (vector ^ (line & 7)), lines, terms};
}

// Starts the copies of up to `rounds` * APART lines from term `begin` on.
__device__ __forceinline__ void load_lines(uint4* to, const Copies& copies, u32 rounds, u32 begin) {
  const u16* from = copies.from + begin;
  u32 lines = begin < copies.terms ? copies.lines : 0;
#pragma unroll
  for (u32 round = 0; round < SLICE / APART; round++) {
    if (round < rounds) {
      copy_async(to + copies.to + round * APART * LINE, from + round * copies.stride, round < lines);
    }
  }
}

// Adds the products of a stage to the sums of the tiles with rows.
__device__ __forceinline__ void add_stage(float (&sums)[ROWS / TILE][4], const FewRowsStage& stage, u32 tiles) {
  // Words of two terms; lines of a warp's tiles are equal in line & 7.
  constexpr u32 WORDS = LINE * 4;
  u32 line = lane_id() / 4;
  const u32* of_weights = (const u32*)stage.weights + (warp_id() * 16 + line) * WORDS + lane_id() % 4;
  const u32* of_rows = (const u32*)stage.rows + line * WORDS + lane_id() % 4;
#pragma unroll
  for (u32 vector = 0; vector < LINE; vector += 2) {
    u32 low = (vector ^ line) * 4;
    u32 high = ((vector + 1) ^ line) * 4;
    u32 weights[] = {of_weights[low], of_weights[8 * WORDS + low], of_weights[high],
                     of_weights[8 * WORDS + high]};
#pragma unroll
    for (u32 tile = 0; tile < ROWS / TILE; tile++) {
      if (tile < tiles) {
        u32 rows[] = {of_rows[tile * TILE * WORDS + low], of_rows[tile * TILE * WORDS + high]};
        multiply_add(sums[tile], weights, rows);
      }
    }
  }
}

// Writes the sums of this warp's columns; `stride` elements lie between rows.
__device__ __forceinline__ void store_sums(const float (&sums)[ROWS / TILE][4], u16* out, u64 stride, u32 rows,
                                           u32 columns) {
#pragma unroll
  for (u32 tile = 0; tile < ROWS / TILE; tile++) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u32 row = tile * TILE + lane_id() % 4 * 2 + i % 2;
      u32 column = warp_id() * 16 + lane_id() / 4 + i / 2 * 8;
      if (row < rows && column < columns) {
        out[row * stride + column] = (u16)round_to_bf16(sums[tile][i], 0.f);
      }
    }
  }
}

// The results of up to ROWS rows in up to SLICE columns.
__device__ __forceinline__ void multiply_few(FewRowsStage* stages, const FactorLines& rows,
                                             const FactorLines& weights, u16* out, u64 stride) {
  float sums[ROWS / TILE][4] = {};
  u32 tiles = (rows.count + TILE - 1) / TILE;
  u32 steps = (rows.terms + TERMS - 1) / TERMS;
  u32 rounds = (tiles * TILE + APART - 1) / APART;
  Copies of_weights = copies_of(weights);
  Copies of_rows = copies_of(rows);
  // What follows is written where the product before has been read.
  __syncthreads();
  for (u32 step = 0; step < steps + STAGES - 1; step++) {
    if (step >= STAGES - 1) {
      // The group of the stage that is multiplied is followed by STAGES - 2 groups.
      copy_async_wait<STAGES - 2>();
      __syncthreads();
    }
    if (step < steps) {
      // All threads have passed the barrier above, so they have read this stage's terms of before.
      FewRowsStage& next = stages[step % STAGES];
      load_lines(next.weights, of_weights, SLICE / APART, step * TERMS);
      load_lines(next.rows, of_rows, rounds, step * TERMS);
    }
    copy_async_commit();
    if (step >= STAGES - 1) {
      add_stage(sums, stages[(step - (STAGES - 1)) % STAGES], tiles);
    }
  }
  copy_async_wait<0>();
  store_sums(sums, out, stride, rows.count, weights.count);
}

// x: [experts, places, terms], of which each expert has the first counts[e] rows; weights: [experts, columns,
// terms]; out: [experts, places, columns].
extern "C" __global__ void __launch_bounds__(THREADS)
    moe_few_rows(const u16* x, const int* counts, u64 places, u64 experts, u64 columns, u64 terms,
                 const u16* weights, u16* out) {
  extern __shared__ FewRowsStage stages[];
  u64 slices = (columns + SLICE - 1) / SLICE;
  for (u64 work = blockIdx.x; work < experts * slices; work += gridDim.x) {
    u64 expert = work / slices;
    u64 column = work % slices * SLICE;
    FactorLines slice = {weights + (expert * columns + column) * terms, (u32)min(columns - column, (u64)SLICE),
                         (u32)terms};
    u32 count = rows_of(counts, expert, places);
    for (u32 first = 0; first < count; first += ROWS) {
      u64 row = expert * places + first;
      FactorLines rows = {x + row * terms, min(count - first, ROWS), (u32)terms};
      multiply_few(stages, rows, slice, out + row * columns + column, columns);
    }
  }
}
