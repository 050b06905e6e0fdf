// Device functions of a library that carry what kernels put, NVSHMEM's or those of NCCL's GIN, under names of
// ep4j's own: kernels that are compiled with EP4J_PUT_TRANSPORT 2 are linked to them. Offsets are in memory of
// the same size on all ranks, which the library knows as `window`; offsets and bytes are multiples of 16.
//
// Whole warps call them, but for ep4j_library_signals. Lanes are streams of work; a signal that a warp sends
// on a lane takes effect after all that this warp has put to that peer on it before.
#pragma once
#include "ptx.cuh"

#ifndef EP4J_PUT_TRANSPORT
#define EP4J_PUT_TRANSPORT 0
#endif

// Whether a kernel calls them. Calls leave it fewer registers, so it holds fewer rows at a time rather
// than spill.
constexpr bool CALLS_LIBRARY = EP4J_PUT_TRANSPORT == 2;

// Compiled for Blackwell kernels take more registers: fewer vectors of a row, too.
#if EP4J_PUT_TRANSPORT == 2 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool SAVES_REGISTERS = true;
#else
constexpr bool SAVES_REGISTERS = false;
#endif

#if EP4J_PUT_TRANSPORT == 2
extern "C" {
__device__ void ep4j_library_put(u64 library, u64 window, u32 lane, u32 peer, u64 target, u64 source,
                                 u64 bytes);
// `words`: offset of this rank's words of signals in the window.
__device__ void ep4j_library_signal(u64 library, u64 window, u64 words, u32 lane, u32 peer, u32 signal,
                                    u64 value);
// Waits until what was put on the lane may be overwritten here.
__device__ void ep4j_library_flush(u64 library, u32 lane);
// What the library counts of a signal of this rank apart from its word; acquire.
__device__ u64 ep4j_library_signals(u64 library, u32 signal);
}
#endif
