// Device functions of a library that carries puts of kernels, NVSHMEM or NCCL's GIN, under ep4j's
// own names: kernels compiled with EP4J_PUT_TRANSPORT 2 are linked to them. Offsets are in memory
// of the same size on all ranks, known to the library as `window`; offsets and bytes are multiples
// of 16.
//
// Whole warps call them, except for ep4j_library_signals. Lanes are streams of work; a signal on a
// lane takes effect after all earlier puts of this warp to that peer on that lane.
#pragma once
#include "common/ptx.cuh"

#ifndef EP4J_PUT_TRANSPORT
#define EP4J_PUT_TRANSPORT 0
#endif

// Whether a kernel calls the library. Calls leave it fewer registers, so it holds fewer rows at a
// time instead of spilling.
constexpr bool CALLS_LIBRARY = EP4J_PUT_TRANSPORT == 2;

// Kernels compiled for Blackwell need more registers: they also hold fewer vectors of a row.
#if EP4J_PUT_TRANSPORT == 2 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool SAVES_REGISTERS = true;
#else
constexpr bool SAVES_REGISTERS = false;
#endif

#if EP4J_PUT_TRANSPORT == 2
extern "C" {
__device__ void ep4j_library_put(u64 library, u64 window, u32 lane, u32 peer, u64 target, u64 source,
                                 u64 bytes);
// `words`: offset of this rank's signal words in the window.
__device__ void ep4j_library_signal(u64 library, u64 window, u64 words, u32 lane, u32 peer, u32 signal,
                                    u64 value);
// Waits until the sources of the lane's puts may be overwritten.
__device__ void ep4j_library_flush(u64 library, u32 lane);
// The library's own count of a signal of this rank, besides its word; acquire.
__device__ u64 ep4j_library_signals(u64 library, u32 signal);
}
#endif
