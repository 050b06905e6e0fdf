// The functions of ep4j's library.cuh, by NVSHMEM's device library. Compiled ahead of time for one
// version of NVSHMEM, whose headers need nvcc; linked to kernels with libnvshmem_device.a.
//
// Roles: whole warps call the put, signal and flush functions. `window` is this rank's memory on
// the symmetric heap.
//
// Invariant: signals are words in that memory, so the library has no count of its own. NVSHMEM has
// no lanes here: all puts of a rank share its queues.
#include <nvshmem.h>
#include <nvshmemx.h>

#if NVSHMEM_VENDOR_MAJOR_VERSION != EP4J_MAJOR || NVSHMEM_VENDOR_MINOR_VERSION != EP4J_MINOR
#error "these are the headers of another version of NVSHMEM than the library that was found"
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

// As in the kernels' lanes.cuh: the assembler loses predicates that live across calls.
static __device__ __forceinline__ u32 ask_lane() {
  u32 lane = threadIdx.x & 31;
  asm volatile("" : "+r"(lane));
  return lane;
}

// Never inlined: NVSHMEM's own calls are not intermediate code, and kernels that use all their
// registers would spill around them.
#define EP4J_LIBRARY extern "C" __device__ __noinline__

EP4J_LIBRARY void ep4j_library_put(u64 library, u64 window, u32 lane, u32 peer, u64 target, u64 source,
                                   u64 bytes) {
  nvshmemx_putmem_nbi_warp((char*)window + target, (const char*)window + source, bytes, (int)peer);
}

EP4J_LIBRARY void ep4j_library_signal(u64 library, u64 window, u64 words, u32 lane, u32 peer, u32 signal,
                                      u64 value) {
  __syncwarp();
  if (ask_lane() == 0) {
    // Only a fence orders puts before the signal.
    nvshmem_fence();
    nvshmemx_signal_op((uint64_t*)(window + words) + signal, value, NVSHMEM_SIGNAL_ADD, (int)peer);
  }
  __syncwarp();
}

EP4J_LIBRARY void ep4j_library_flush(u64 library, u32 lane) {
  __syncwarp();
  if (ask_lane() == 0) {
    nvshmem_quiet();
  }
  __syncwarp();
}

EP4J_LIBRARY u64 ep4j_library_signals(u64 library, u32 signal) { return 0; }
