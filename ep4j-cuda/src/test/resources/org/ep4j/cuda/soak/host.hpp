// In place of a GPU: one thread on the host does the turns of all of a kernel's. Read before
// everything else; EP4J_SOAK_ENTRY goes behind it.
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
