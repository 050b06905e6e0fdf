// Replaces a GPU: one host thread executes all iterations of a kernel. Included before everything
// else; EP4J_SOAK_ENTRY follows it.
#pragma once

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __grid_constant__

struct Index {
  unsigned x;
};
constexpr Index threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};

template <typename T>
static T atomicAdd(T* at, T value) {
  T before = *at;
  *at += value;
  return before;
}

template <typename T>
static T atomicMin(T* at, T value) {
  T before = *at;
  *at = value < before ? value : before;
  return before;
}
