// The carrier of slots, words and counts to ranks of other nodes. Kernels submit commands; the
// carrier is chosen when they are compiled (EP4J_PUT_TRANSPORT):
//
//   2     device functions of a backend's library execute them at once (library.cuh). Landing and outgoing
//         memory are one window in GPU memory, followed by the counters: library signals, each a word that
//         peers add to plus the library's own count.
//   else  the proxy reads them and posts them to a wire (command_ring.cuh). Counters are in host memory;
//         the wire adds to them.
//
// Counters are monotonic. Invariant: all earlier puts to the same rank, by the same warp and
// through the same ring, have arrived once an add has been read with acquire. A ring is a lane of
// the library.
#pragma once
#include "transport/command_ring.cuh"
#include "transport/library.cuh"
#include "structs/internode_transport.cuh"

// The library's own count of a counter, besides its word.
__device__ __forceinline__ u64 library_count(const InternodeTransport& transport, const u64* counter) {
#if EP4J_PUT_TRANSPORT == 2
  return ep4j_library_signals(transport.library, (u32)(counter - transport.counters));
#else
  return 0;
#endif
}

// Value of a counter of this rank.
__device__ __forceinline__ u64 count_acquire(const InternodeTransport& transport, const u64* counter) {
  return load_acquire_system(counter) + library_count(transport, counter);
}

__device__ __forceinline__ u64 count_relaxed(const InternodeTransport& transport, const u64* counter) {
  return load_relaxed_system(counter) + library_count(transport, counter);
}

// Whether a rank sends nothing more. Libraries do not report this: deadlines and the host's abort
// end waits.
__device__ __forceinline__ bool is_peer_lost(const InternodeTransport& transport, u32 rank) {
#if EP4J_PUT_TRANSPORT == 2
  return false;
#else
  return load_acquire_system(&transport.rings.failures[rank]) != 0;
#endif
}

#if EP4J_PUT_TRANSPORT == 2
__device__ __forceinline__ void execute(const InternodeTransport& transport, u32 ring, Command command) {
  u64 library = transport.library;
  u32 peer = command.peer();
  u32 counter = command.counter();
  u64 value = command.value();
  if (command.operation() == COMMAND_PUT) {
    ep4j_library_put(library, transport.window, ring, peer, command.target(), command.source(),
                     command.bytes());
    value = 1;
  }
  if (counter != NO_COUNTER) {
    ep4j_library_signal(library, transport.window, transport.words, ring, peer, counter, value);
  }
}
#endif

// Whole warps: submits the commands of the lanes that have one; FENCED: behind the warp's earlier
// writes. False on all lanes if the deadline passes or the ring has stopped (see push).
template <bool FENCED = true>
__device__ __forceinline__ bool submit(const InternodeTransport& transport, u32 ring, bool mine, Command command,
                                          u64 deadline) {
#if EP4J_PUT_TRANSPORT == 2
  __syncwarp();
  if (FENCED && mine) {
    __threadfence_system();
  }
  __syncwarp();
  for (u32 left = __ballot_sync(0xffffffff, mine); left != 0; left &= left - 1) {
    int lane = __ffs(left) - 1;
    execute(transport, ring, Command{__shfl_sync(0xffffffff, command.first, lane),
                                     __shfl_sync(0xffffffff, command.second, lane)});
  }
  return true;
#else
  return push<FENCED>(transport.rings, ring, mine, command, deadline);
#endif
}
