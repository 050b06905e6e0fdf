// The machine instructions that the kernels need, one function each. These files use no toolkit
// header, so NVRTC compiles them on a machine that has only its library.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define EP4J_TMA 1
#else
#define EP4J_TMA 0
#endif

// Whether the GPU has an instruction that rounds to FP8.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define EP4J_E4M3 1
#else
#define EP4J_E4M3 0
#endif

#include "common/lanes.cuh"

// --- words that several blocks or GPUs share -------------------------------------------------

__device__ __forceinline__ u64 load_acquire_system(const u64* at) {
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

__device__ __forceinline__ u64 load_acquire_gpu(const u64* at) {
  u64 value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

__device__ __forceinline__ void store_release_system(u64* at, u64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ __forceinline__ void store_release_gpu(u64* at, u64 value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ __forceinline__ void add_release_system(u64* at, u64 value) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// Shared memory.
__device__ __forceinline__ u64 load_acquire_block(const u64* at) {
  u64 value;
  asm volatile("ld.acquire.cta.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

__device__ __forceinline__ void store_release_block(u64* at, u64 value) {
  asm volatile("st.release.cta.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// For self-contained words: nothing else is ordered by them, so many loads can be in flight.
__device__ __forceinline__ u64 load_relaxed_system(const u64* at) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at));
  return value;
}

__device__ __forceinline__ void store_relaxed_system(u64* at, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// Two adjacent words, 16-byte aligned: each word is atomic, their mutual order is undefined.
__device__ __forceinline__ void store_pair_relaxed_system(u64* at, u64 first, u64 second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(first), "l"(second)
               : "memory");
}

__device__ __forceinline__ u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// --- some warps of a block -------------------------------------------------------------------

// Waits at one of the block's barriers, 1 to 15, until `threads` threads have arrived.
__device__ __forceinline__ void barrier_sync(u32 barrier, u32 threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Arrives without waiting.
__device__ __forceinline__ void barrier_arrive(u32 barrier, u32 threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// --- consecutive kernels (sm_90 and later): programmatic dependent launch ---------------------

// Waits until the previous kernel of the stream has ended and its writes are visible. A launch may
// start blocks earlier: read nothing that others write before this call.
__device__ __forceinline__ void await_previous_kernel() {
#if EP4J_TMA
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel take this kernel's SMs once all blocks have called this; the next kernel
// still awaits this one's end. Call only when this kernel waits for no other kernel any more: the
// next kernel may take the SMs that a kernel on which this one waits still needs.
__device__ __forceinline__ void launch_dependent_kernels() {
#if EP4J_TMA
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// --- rows read once or written once ----------------------------------------------------------

// Bypasses the first-level cache, which is not coherent with peers' writes.
__device__ __forceinline__ uint4 load_row(const void* at) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

__device__ __forceinline__ void store_row(void* at, uint4 v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ void store_half_vector(void* at, uint2 v) {
  asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(v.x), "r"(v.y) : "memory");
}

// --- packets of 128 bytes ---------------------------------------------------------------------
//
// A lane's share of a packet; whole warps. Adjacent lanes whose shares form one packet call with
// the same `mine`; all others have no share.

__device__ __forceinline__ void store_packet(void* at, uint4 v, bool mine) {
  if (mine) {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x),
                 "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  }
}

__device__ __forceinline__ void store_packet(void* at, uint2 v, bool mine) {
  if (mine) {
    asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(v.x), "r"(v.y)
                 : "memory");
  }
}

__device__ __forceinline__ void store_packet(void* at, u32 v, bool mine) {
  if (mine) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
  }
}

__device__ __forceinline__ void load_packet(uint4& v, const void* at, bool mine) {
  if (mine) {
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
  }
}

__device__ __forceinline__ void load_packet(u32& v, const void* at, bool mine) {
  if (mine) {
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at));
  }
}

// --- bulk copies by the tensor memory accelerator (sm_90 and later) --------------------------

#if EP4J_TMA
__device__ __forceinline__ u32 shared_address(const void* at) {
  return (u32)__cvta_generic_to_shared(at);
}

// A phase ends after `arrivals` arrivals and all bytes that they expect.
__device__ __forceinline__ void barrier_init(u64* barrier, u32 arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// Arrives without expecting bytes; orders what this thread did before.
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Makes initialised barriers visible to the asynchronous proxy.
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni out;\n"
      "bra.uni again;\n"
      "out:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Global to shared; the barrier counts the bytes. Addresses and sizes are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Shared to global, of this GPU or a peer; joins this thread's open bulk group.
__device__ __forceinline__ void bulk_store(void* to, const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the newest N groups of this thread have read their shared memory.
template <int N>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Waits until all but the newest N groups of this thread have completed their writes.
template <int N>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
#endif

// Orders writes of the asynchronous proxy before later accesses of the generic proxy, and vice
// versa.
__device__ __forceinline__ void fence_proxy() {
#if EP4J_TMA
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

// --- pairs of numbers, rounded to nearest even -----------------------------------------------

__device__ __forceinline__ u32 round_to_bf16(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ u32 round_to_fp16(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ void from_fp16(u32 pair, float& low, float& high) {
  asm("{\n"
      ".reg .f16 a, b;\n"
      "mov.b32 {a, b}, %2;\n"
      "cvt.f32.f16 %0, a;\n"
      "cvt.f32.f16 %1, b;\n"
      "}"
      : "=f"(low), "=f"(high)
      : "r"(pair));
}

#if EP4J_E4M3
// Saturating; the lower value in the lower byte.
__device__ __forceinline__ u32 round_to_e4m3(float low, float high) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif
