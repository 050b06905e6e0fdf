// Which lane, warp or thread runs. Included by ptx.cuh, which defines the types.
#pragma once

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }
__device__ __forceinline__ u32 warp_id() { return threadIdx.x >> 5; }

// The value; the compiler cannot know that it is the same as before. NVIDIA's assembler loses predicates
// that live long: all lanes, or none, then take the branch of one lane (docs/design/lost-predicates.md).
__device__ __forceinline__ u32 ask_anew(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ bool is_lane(u32 lane) { return ask_anew(lane_id()) == lane; }

__device__ __forceinline__ bool is_first_lane() { return is_lane(0); }
__device__ __forceinline__ bool is_first_thread() { return ask_anew(threadIdx.x) == 0; }
