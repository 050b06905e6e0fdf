// Parameters of kernels that may be compile-time constants.
#pragma once
#include "common/ptx.cuh"

// Properties of a buffer that may be known when its kernels are compiled; 0, and 2 for masking:
// unknown. With constants the kernels are considerably shorter, and kernels this short wait for
// instructions as well as for memory.
#ifndef EP4J_HIDDEN
#define EP4J_HIDDEN 0
#endif
#ifndef EP4J_RANKS
#define EP4J_RANKS 0
#define EP4J_EXPERTS 0
#define EP4J_CHOICES 0
#endif
#ifndef EP4J_MASKING
#define EP4J_MASKING 2
#endif

// A parameter that may be such a constant.
template <u64 VALUE, u64 UNKNOWN = 0>
struct Specialized {
  u64 runtime_value;

  __device__ __forceinline__ operator u64() const { return VALUE == UNKNOWN ? runtime_value : VALUE; }

  __device__ __forceinline__ Specialized& operator=(u64 value) {
    runtime_value = value;
    return *this;
  }
};
