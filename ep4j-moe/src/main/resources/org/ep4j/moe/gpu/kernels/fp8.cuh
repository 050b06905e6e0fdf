// Tokens as rows of FP8 E4M3 with an FP32 scale for each block of 128 elements, and back to BF16; and BF16 of
// matrices of FP8.
//
// Roles: a warp takes two blocks, or a row, in vectors of eight elements a lane. Budget: 256 threads a block,
// no shared memory.
#pragma once
#include "common/fp8.cuh"
#include "moe/bf16.cuh"
#include "moe/groups.cuh"

constexpr u32 BLOCK = 128;

// The bits of low latency. Blocks are independent, so rows of whole blocks are as one.
extern "C" __global__ void __launch_bounds__(256)
    moe_quantise(const u16* x, char* rows, float* scales, u64 blocks) {
  u64 warps = (u64)gridDim.x * (blockDim.x / 32);
  u64 elements = blocks * BLOCK;
  for (u64 pair = (u64)blockIdx.x * (blockDim.x / 32) + warp_id(); 2 * pair < blocks; pair += warps) {
    u64 at = 2 * pair * BLOCK + lane_id() * VECTOR;
    // The lanes of a block that is not there take part in the warp's maximum.
    bool there = at < elements;
    uint4 values = there ? *(const uint4*)(x + at) : make_uint4(0, 0, 0, 0);
    float amax = fp8_amax(values);
    if (there) {
      *(uint2*)(rows + at) = to_fp8(values, fp8_multiplier(SCALE_FLOAT32, amax));
      if (at % BLOCK == 0) {
        scales[at / BLOCK] = __uint_as_float(fp8_scale_bits(SCALE_FLOAT32, amax));
      }
    }
  }
}

// The products of eight elements and their scale.
__device__ __forceinline__ void dequantise(uint2 codes, float scale, float (&values)[VECTOR]) {
  u32 words[] = {codes.x, codes.y};
#pragma unroll
  for (u32 i = 0; i < VECTOR; i++) {
    u32 code = words[i / 4] >> 8 * (i % 4);
    bool number = (code & 0x7f) != 0x7f;
    values[i] = __fmul_rn(number ? from_e4m3(code) : __uint_as_float(0x7fffffff), scale);
  }
}

// rows: [groups, places, hidden] with scales [groups, places, hidden / 128], of which each group has the first
// counts[g] rows, or all if there are no counts; out: [groups, places, hidden].
extern "C" __global__ void __launch_bounds__(256)
    moe_dequantise(const char* rows, const float* scales, const int* counts, u64 places, u64 groups, u64 hidden,
                   u16* out) {
  u64 warps = (u64)gridDim.x * (blockDim.x / 32);
  for (u64 row = (u64)blockIdx.x * (blockDim.x / 32) + warp_id(); row < groups * places; row += warps) {
    if (counts != nullptr && row % places >= rows_of(counts, row / places, places)) {
      continue;
    }
    for (u64 column = lane_id() * VECTOR; column < hidden; column += 32 * VECTOR) {
      u64 at = row * hidden + column;
      float values[VECTOR];
      dequantise(*(const uint2*)(rows + at), scales[at / BLOCK], values);
      store_bf16(out + at, values);
    }
  }
}

// A matrix of weights [rows, columns], multiples of 128, with a factor for each block of 128 by 128: factors
// [rows / 128, columns / 128].
extern "C" __global__ void __launch_bounds__(256)
    moe_dequantise_weights(const char* weights, const float* factors, u64 rows, u64 columns, u16* out) {
  u64 across = columns / VECTOR;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows * across; i += (u64)gridDim.x * blockDim.x) {
    u64 block = i / across / BLOCK * (columns / BLOCK) + i % across * VECTOR / BLOCK;
    float values[VECTOR];
    dequantise(*(const uint2*)(weights + i * VECTOR), factors[block], values);
    store_bf16(out + i * VECTOR, values);
  }
}

// Scales as products of FP8 read them: of rows [places, blocks] to [blocks, rows] of each group, whose first
// place is starts[g], and whose end is starts[g + 1]. Blocks of threads share a group.
extern "C" __global__ void __launch_bounds__(256)
    moe_scales_of_groups(const float* scales, const u64* starts, u64 groups, u64 blocks, float* out) {
  for (u64 work = blockIdx.x; work < groups * SHARES; work += gridDim.x) {
    u64 group = work / SHARES;
    u64 first = starts[group];
    u64 rows = starts[group + 1] - first;
    for (u64 i = work % SHARES * blockDim.x + threadIdx.x; i < rows * blocks; i += SHARES * blockDim.x) {
      out[first * blocks + i] = scales[(first + i % rows) * blocks + i / rows];
    }
  }
}
