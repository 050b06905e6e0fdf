// Checks that compiling, loading and launching work: out[i] = scale * i + offset, one thread an
// element, no shared memory.

#include "probe/smoke.cuh"

extern "C" __global__ void smoke(const __grid_constant__ SmokeParameters p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.count) {
    p.out[i] = p.scale * static_cast<float>(i) + SMOKE_OFFSET;
  }
}
