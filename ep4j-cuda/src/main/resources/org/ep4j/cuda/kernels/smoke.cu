// A kernel that says whether compiling, loading and launching work: out[i] = scale * i + offset,
// one thread an element. No more is needed to see that a driver, a compiler and a cache fit.

#include "smoke.cuh"

extern "C" __global__ void smoke(const __grid_constant__ SmokeParameters p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.count) {
    p.out[i] = p.scale * static_cast<float>(i) + SMOKE_OFFSET;
  }
}
