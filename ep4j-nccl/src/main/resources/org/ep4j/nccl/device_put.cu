// The functions of ep4j's library.cuh, by NCCL's GIN. Compiled ahead of time for one version of
// NCCL: its device headers need nvcc, and GIN code works only with the library of its own version.
//
// Roles: whole warps call the put, signal and flush functions; one thread runs each kernel. Budget:
// no shared memory. `library` is a GinTable in device memory: communicators of the same ranks, each
// with a window of the same memory, so `window` is unused. Lanes are contexts, each with a queue
// pair to each peer: those of the first communicator, then those of the second, and so on. More
// lanes than contexts share them.
//
// Invariant: a lane is a context of one communicator, so its signals follow its puts. Every context
// of every communicator has one GIN signal of each number, so the value of a signal is their sum.
//
// Host structures differ between versions, so ep4j_gin_requirements fills them here.
#include <nccl_device.h>

#if NCCL_VERSION_CODE != EP4J_NCCL_VERSION
#error "these are the headers of another version of NCCL than the library that was found"
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// On Blackwell, kernels would spill around inlined NCCL code (see the kernels' library.cuh).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define EP4J_LIBRARY extern "C" __device__ __noinline__
#else
#define EP4J_LIBRARY extern "C" __device__
#endif

// A signal that takes effect after all puts of its context to the same peer.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 7)
typedef ncclGin_StrongSignalAdd OrderedAdd;
#else
typedef ncclGin_SignalAdd OrderedAdd;
#endif

// Written by org.ep4j.nccl.gin.GinTable; entries follow the header.
struct GinTable {
  u64 communicators;
  u64 contexts;  // of each, which number the lanes
};

struct GinEntry {
  u64 comm;    // const ncclDevComm*
  u64 window;  // ncclWindow_t of this rank's memory
};

static_assert(sizeof(GinTable) == EP4J_GIN_TABLE_HEADER, "the header of a GinTable");
static_assert(sizeof(GinEntry) == EP4J_GIN_TABLE_ENTRY, "an entry of a GinTable");

__device__ __forceinline__ const GinTable& table_of(u64 library) { return *(const GinTable*)library; }

__device__ __forceinline__ const GinEntry& entry_at(const GinTable& table, u32 number) {
  return ((const GinEntry*)(&table + 1))[number];
}

__device__ __forceinline__ const GinEntry& entry_of(u64 library, u32 lane) {
  const GinTable& table = table_of(library);
  return entry_at(table, lane / (u32)table.contexts % (u32)table.communicators);
}

__device__ __forceinline__ const ncclDevComm& comm_of(const GinEntry& entry) {
  return *(const ncclDevComm*)entry.comm;
}

__device__ __forceinline__ ncclGin gin_of(const ncclDevComm& comm, u32 lane) {
  return ncclGin(comm, (int)(lane % (u32)comm.ginContextCount));
}

EP4J_LIBRARY void ep4j_library_put(u64 library, u64 window, u32 lane, u32 peer, u64 target, u64 source,
                                   u64 bytes) {
  const GinEntry& entry = entry_of(library, lane);
  const ncclDevComm& comm = comm_of(entry);
  ncclWindow_t memory = (ncclWindow_t)entry.window;
  gin_of(comm, lane).put(ncclTeamWorld(comm), (int)peer, memory, target, memory, source, bytes,
                         ncclGin_None{}, ncclGin_None{}, ncclCoopWarp());
}

EP4J_LIBRARY void ep4j_library_signal(u64 library, u64 window, u64 words, u32 lane, u32 peer, u32 signal,
                                      u64 value) {
  const ncclDevComm& comm = comm_of(entry_of(library, lane));
  gin_of(comm, lane).signal(ncclTeamWorld(comm), (int)peer, OrderedAdd{signal, value},
                            ncclCoopWarp());
}

EP4J_LIBRARY void ep4j_library_flush(u64 library, u32 lane) {
  gin_of(comm_of(entry_of(library, lane)), lane).flush(ncclCoopWarp());
}

EP4J_LIBRARY u64 ep4j_library_signals(u64 library, u32 signal) {
  const GinTable& table = table_of(library);
  u64 sum = 0;
  for (u32 number = 0; number < table.communicators; number++) {
    const ncclDevComm& comm = comm_of(entry_at(table, number));
    for (u32 context = 0; context < (u32)comm.ginContextCount; context++) {
      sum += gin_of(comm, context).readSignal(signal);
    }
  }
  return sum;
}

// One thread: the requirements of a device communicator, and the sizes of the host's structures.
// facts: bytes of the requirements, and of an ncclDevComm.
extern "C" __global__ void ep4j_gin_requirements(u8* bytes, u64 room, u64 contexts, u64 signals,
                                                 u64* facts) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements wanted = {};
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 3)
  wanted.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
#else
  wanted.ginForceEnable = true;
#endif
  wanted.ginContextCount = (int)contexts;
  wanted.ginSignalCount = (int)signals;
  for (u64 i = 0; i < sizeof(wanted) && i < room; i++) {
    bytes[i] = ((const u8*)&wanted)[i];
  }
  facts[0] = sizeof(wanted);
  facts[1] = sizeof(ncclDevComm);
}

// One thread: resets the signals of an ncclDevComm, which keep the values of earlier users of their
// numbers. Returns the number of its contexts.
extern "C" __global__ void ep4j_gin_begin(const ncclDevComm* made, u64 signals, u64* contexts) {
  const ncclDevComm& comm = *made;
  for (u32 context = 0; context < (u32)comm.ginContextCount; context++) {
    for (u32 signal = 0; signal < signals; signal++) {
      gin_of(comm, context).resetSignal(signal);
    }
  }
  *contexts = comm.ginContextCount;
}
