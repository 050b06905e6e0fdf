// What carries slots, words and counts to ranks of other nodes. Kernels say it in commands, and it is
// chosen when they are compiled (EP4J_PUT_TRANSPORT):
//
//   2     device functions of a backend's library carry them out at once (library.cuh). Landing and outgoing
//         memory are one window in memory of the GPU, and behind it lie the counters: signals of the library,
//         each a word that peers add to and what the library counts apart from it.
//   else  the proxy reads them and posts them to a wire (command_ring.cuh). Counters lie in memory of the
//         host, and the wire lets them grow.
//
// A counter only grows. What was put before an add, to the same rank, by the same warp and through the same
// ring, is there once the counter has been read with acquire. A ring is a lane of the library.
#pragma once
#include "command_ring.cuh"
#include "library.cuh"

// 8 bytes a field, in the order of org.ep4j.cuda.far.InternodeTransportField.
struct InternodeTransport {
  const u64* counters;  // of this rank
  u64 library;          // what its functions want to know
  u64 window;           // and how they call the memory
  u64 words;            // offset of its words of signals there: the counters
  CommandRings rings;   // of the proxy; the library: their number alone
};

// What the library counts of a counter apart from its word.
__device__ __forceinline__ u64 library_count(const InternodeTransport& transport, const u64* counter) {
#if EP4J_PUT_TRANSPORT == 2
  return ep4j_library_signals(transport.library, (u32)(counter - transport.counters));
#else
  return 0;
#endif
}

// A counter of this rank.
__device__ __forceinline__ u64 count_acquire(const InternodeTransport& transport, const u64* counter) {
  return load_acquire_system(counter) + library_count(transport, counter);
}

__device__ __forceinline__ u64 count_relaxed(const InternodeTransport& transport, const u64* counter) {
  return load_relaxed_system(counter) + library_count(transport, counter);
}

// Whether nothing more comes from a rank. Libraries do not tell: deadlines and the host's word end waits.
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

// Whole warps: the commands of the lanes that have one, FENCED behind what the warp wrote before. False on
// all lanes if they cannot be handed over before the deadline, or any more (see push).
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
