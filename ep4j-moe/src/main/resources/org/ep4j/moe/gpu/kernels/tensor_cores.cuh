// Instructions of products (sm_80 and later): copies into shared memory that threads do not wait for, the
// multiply-add of tensor cores, and its factors from FP8. The emulator replaces this file.
#pragma once
#include "common/ptx.cuh"

// Copies 16 bytes to shared memory, or writes zeros if they are not wanted. Joins the thread's open group.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(wanted ? 16 : 0)
               : "memory");
}

// Closes the thread's open group.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the newest N groups of this thread have arrived; other threads see them after a barrier.
template <int N>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// sums += a · b of a warp: 16 rows, 8 columns, 16 terms; BF16 with sums in FP32. With g = lane / 4 and
// t = lane % 4, pairs of adjacent terms, the lower one in the lower half:
//   a: row g, terms 2t; row g + 8, terms 2t; row g, terms 2t + 8; row g + 8, terms 2t + 8
//   b: column g, terms 2t; column g, terms 2t + 8
//   sums: row g, columns 2t and 2t + 1; row g + 8, columns 2t and 2t + 1
__device__ __forceinline__ void multiply_add(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The two FP8 E4M3 codes in the lower half, the lower one in the lower half of the result. Exact, but for the
// code of a NaN, which becomes 480.
__device__ __forceinline__ u32 e4m3_to_bf16(u32 codes) {
  u32 spread = (codes & 0xff) << 8 | (codes & 0xff00) << 16;
  // The same fraction with an exponent that is less by the difference of the biases, 127 - 7.
  u32 scaled = (spread & 0x7f007f00) >> 4 | (spread & 0x80008000);
  constexpr u32 POWERS = 0x7b807b80;  // 2^120
  constexpr u32 MINUS_ZEROS = 0x80008000;
  u32 pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(scaled), "r"(POWERS), "r"(MINUS_ZEROS));
  return pair;
}
