// Products of few rows as in few_rows.cuh, by weights of FP8 with an FP32 factor for each block of 128 columns
// by 128 terms: half the bytes of memory, for which the kernel waits. Columns and terms are multiples of 128.
//
//   weights     become BF16 in registers, exactly; the sums of the terms of a block are multiplied by its
//               factor and added in FP32
//   stage       TERMS terms: half a block
//   terms       lane t of a multiply-add takes terms 4 t to 4 t + 3 of sixteen from both factors, in the
//               places of its terms 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: a sum has no order of terms, and a lane
//               reads a word of weights at once
//
// Budget: 128 threads a block, 48 KB of shared memory. Vectors of 16 bytes: vector v of line l of weights lies
// at v ^ (l / 2 & 3), of rows at v ^ (l & 3) * 2, so that lanes that read at the same time read all banks.
#pragma once
#include "moe/few_rows.cuh"
#include "moe/fp8.cuh"

constexpr u32 FP8_STAGES = 4;

// Vectors of a line of weights.
constexpr u32 FP8_LINE = TERMS / 16;

struct Fp8Stage {
  uint4 weights[SLICE * FP8_LINE];
  uint4 rows[ROWS * LINE];
};

// Weights of SLICE columns, and the factors of their blocks.
struct Fp8Slice {
  const char* first;
  const float* factors;
};

// Starts the copies of the weights of a stage.
__device__ __forceinline__ void load_fp8_weights(Fp8Stage& stage, const Fp8Slice& slice, u64 terms, u32 begin) {
#pragma unroll
  for (u32 i = threadIdx.x; i < SLICE * FP8_LINE; i += THREADS) {
    u32 line = i / FP8_LINE;
    u32 vector = i % FP8_LINE;
    copy_async(stage.weights + line * FP8_LINE + (vector ^ (line / 2 & 3)),
               slice.first + line * terms + begin + vector * 16, true);
  }
}

// Starts the copies of the rows of a stage; tiles that have some are filled up with zeros.
__device__ __forceinline__ void load_few_rows(Fp8Stage& stage, const FactorLines& rows, u32 tiles, u32 begin) {
  for (u32 i = threadIdx.x; i < tiles * TILE * LINE; i += THREADS) {
    u32 line = i / LINE;
    u32 vector = i % LINE;
    copy_async(stage.rows + line * LINE + (vector ^ (line & 3) * 2),
               rows.first + (u64)line * rows.terms + begin + vector * 8, line < rows.count);
  }
}

// Adds the products of a stage to the sums of the tiles with rows.
__device__ __forceinline__ void add_fp8_stage(float (&sums)[ROWS / TILE][4], const Fp8Stage& stage, u32 tiles) {
  u32 line = lane_id() / 4;
  u32 lane = lane_id() % 4;
  const u32* of_weights = (const u32*)stage.weights + (warp_id() * 16 + line) * FP8_LINE * 4 + lane;
  const u32* of_rows = (const u32*)stage.rows + line * LINE * 4 + lane % 2 * 2;
#pragma unroll
  for (u32 vector = 0; vector < FP8_LINE; vector++) {
    u32 at = (vector ^ (line / 2 & 3)) * 4;
    u32 upper = of_weights[at];
    u32 lower = of_weights[8 * FP8_LINE * 4 + at];
    u32 weights[] = {e4m3_to_bf16(upper), e4m3_to_bf16(lower), e4m3_to_bf16(upper >> 16),
                     e4m3_to_bf16(lower >> 16)};
    u32 from = ((2 * vector + lane / 2) ^ (line & 3) * 2) * 4;
#pragma unroll
    for (u32 tile = 0; tile < ROWS / TILE; tile++) {
      if (tile < tiles) {
        uint2 pair = *(const uint2*)(of_rows + tile * TILE * LINE * 4 + from);
        u32 rows[] = {pair.x, pair.y};
        multiply_add(sums[tile], weights, rows);
      }
    }
  }
}

// Adds the sums of a block times its factor, and clears them.
__device__ __forceinline__ void add_block(float (&totals)[ROWS / TILE][4], float (&sums)[ROWS / TILE][4],
                                          float factor) {
#pragma unroll
  for (u32 tile = 0; tile < ROWS / TILE; tile++) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      totals[tile][i] = __fmaf_rn(sums[tile][i], factor, totals[tile][i]);
      sums[tile][i] = 0;
    }
  }
}

// The results of up to ROWS rows in a slice.
__device__ __forceinline__ void multiply_few_fp8(Fp8Stage* stages, const FactorLines& rows, const Fp8Slice& slice,
                                                 u16* out, u64 stride) {
  float totals[ROWS / TILE][4] = {};
  float sums[ROWS / TILE][4] = {};
  u32 tiles = (rows.count + TILE - 1) / TILE;
  u32 steps = rows.terms / TERMS;
  // What follows is written where the product before has been read.
  __syncthreads();
  for (u32 step = 0; step < steps + FP8_STAGES - 1; step++) {
    if (step >= FP8_STAGES - 1) {
      // The group of the stage that is multiplied is followed by FP8_STAGES - 2 groups.
      copy_async_wait<FP8_STAGES - 2>();
      __syncthreads();
    }
    if (step < steps) {
      // All threads have passed the barrier above, so they have read this stage's terms of before.
      Fp8Stage& next = stages[step % FP8_STAGES];
      load_fp8_weights(next, slice, rows.terms, step * TERMS);
      load_few_rows(next, rows, tiles, step * TERMS);
    }
    copy_async_commit();
    if (step >= FP8_STAGES - 1) {
      u32 multiplied = step - (FP8_STAGES - 1);
      add_fp8_stage(sums, stages[multiplied % FP8_STAGES], tiles);
      if (multiplied % (BLOCK / TERMS) == BLOCK / TERMS - 1) {
        add_block(totals, sums, slice.factors[multiplied / (BLOCK / TERMS)]);
      }
    }
  }
  copy_async_wait<0>();
  store_sums(totals, out, stride, rows.count, SLICE);
}

// x: [experts, places, terms], of which each expert has the first counts[e] rows; weights: FP8 [experts, columns,
// terms]; factors: [experts, columns / 128, terms / 128]; out: [experts, places, columns].
extern "C" __global__ void __launch_bounds__(THREADS)
    moe_few_rows_fp8(const u16* x, const int* counts, u64 places, u64 experts, u64 columns, u64 terms,
                     const char* weights, const float* factors, u16* out) {
  extern __shared__ Fp8Stage fp8_stages[];
  u64 slices = columns / SLICE;
  for (u64 work = blockIdx.x; work < experts * slices; work += gridDim.x) {
    u64 expert = work / slices;
    u64 column = work % slices * SLICE;
    u64 block = (expert * columns + column) / BLOCK;
    Fp8Slice slice = {weights + (expert * columns + column) * terms, factors + block * (terms / BLOCK)};
    u32 count = rows_of(counts, expert, places);
    for (u32 first = 0; first < count; first += ROWS) {
      u64 row = expert * places + first;
      FactorLines rows = {x + row * terms, min(count - first, ROWS), (u32)terms};
      multiply_few_fp8(fp8_stages, rows, slice, out + row * columns + column, columns);
    }
  }
}
