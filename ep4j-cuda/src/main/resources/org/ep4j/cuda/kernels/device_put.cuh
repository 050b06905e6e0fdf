// Puts, signals and flushes from kernels, the same for every backend: a kernel that is written against
// this file is compiled and linked for the way that its ranks have. The host's side is
// org.ep4j.cuda.put.DevicePut.
//
// Every rank has memory of one size, and a put names places in it by their offsets. It goes
//   by stores   to ranks whose memory this GPU reaches: over NVLink, whoever has mapped it
//   by a carrier  to all others, which is chosen when the kernel is compiled (EP4J_PUT_TRANSPORT):
//     PUT_RINGS    commands to the proxy (command_ring.cuh). What is put is copied to memory of the host
//                  first, at the same offset, and arrives in memory of the host: see arrivals()
//     PUT_LIBRARY  device functions of NVSHMEM, or of NCCL's GIN, that are linked to the kernel (library.cuh)
//
// Lanes are streams of work that know nothing of each other; one warp at a time uses a lane. Order: within
// a lane, to one peer, a signal takes effect after all that this warp has put there before. Puts may
// overtake each other. Flushes wait; the others do not, but for room in a ring.
//
// Signals are words that only grow. Each has two parts, and counts as their sum:
//   word      device, in the memory of the receiver: ranks that reach it by stores add to it, release; so
//             does NVSHMEM. Who waits for the signal reads it with acquire.
//   carried   what the carrier counts: a counter of the wire in memory of the host (added by the wire,
//             release; read with acquire), or a signal of GIN
#pragma once
#include "command_ring.cuh"
#include "library.cuh"

constexpr u32 PUT_STORES = 0;  // nobody but those who are reached by stores
constexpr u32 PUT_RINGS = 1;
constexpr u32 PUT_LIBRARY = 2;
constexpr u32 PUT_CARRIER = EP4J_PUT_TRANSPORT;

// Kernels take it by value. 8 bytes a field, in the order of org.ep4j.cuda.put.PutField.
struct DevicePut {
  u64 rank;
  u64 ranks;
  u64 lanes;
  u64 signals;
  char* own;            // memory of this rank
  char* const* peers;   // [ranks] the same of all ranks; nullptr: the carrier goes there
  u64 signal_words;     // offset of the words of signals in that memory
  u64 library;          // what the linked functions want to know
  u64 window;           // and how they call that memory
  char* outgoing;       // page-locked memory of the host that the wire reads
  const char* incoming;  // and that it writes
  const u64* counters;  // [signals] of the wire
  u64* flushes;         // device, [lanes] flushes so far: the warp that has the lane
  u64 lanes_per_ring;  // of the wire
  CommandRings rings;
};

// Below what the length of a command can say.
constexpr u64 MAX_COMMAND_BYTES = 8ull << 20;

// Whole warps: bytes in a multiple of 16, from a place that nobody writes meanwhile.
__device__ __forceinline__ void copy_bytes(char* to, const char* from, u64 bytes) {
  constexpr u32 UNROLL = 8;  // vectors of a lane under way
  u64 vectors = bytes / 16;
  const uint4* source = (const uint4*)from;
  uint4* target = (uint4*)to;
  u64 at = lane_id();
  for (; at + (UNROLL - 1) * 32 < vectors; at += UNROLL * 32) {
    uint4 v[UNROLL];
#pragma unroll
    for (u32 i = 0; i < UNROLL; i++) {
      v[i] = load_row(source + at + i * 32);
    }
#pragma unroll
    for (u32 i = 0; i < UNROLL; i++) {
      store_row(target + at + i * 32, v[i]);
    }
  }
  for (; at < vectors; at += 32) {
    store_row(target + at, load_row(source + at));
  }
}

__device__ __forceinline__ u32 ring_of(const DevicePut& p, u32 lane) {
  return lane % (u32)p.rings.rings;
}

__device__ __forceinline__ u32 lane_of_ring(const DevicePut& p, u32 lane) {
  return lane / (u32)p.rings.rings % (u32)p.lanes_per_ring;
}

// One command of a warp.
__device__ __forceinline__ bool push_one(const DevicePut& p, u32 lane, Command command, u64 deadline) {
  return push(p.rings, ring_of(p, lane), lane_id() == 0, command, deadline);
}

__device__ __forceinline__ bool put_by_ring(const DevicePut& p, u32 lane, u32 peer, u64 target,
                                            u64 source, u64 bytes, u64 deadline) {
  for (u64 done = 0; done < bytes; done += MAX_COMMAND_BYTES) {
    u64 piece = min(bytes - done, MAX_COMMAND_BYTES);
    copy_bytes(p.outgoing + source + done, p.own + source + done, piece);
    Command command = put_command(peer, lane_of_ring(p, lane), source + done, target + done, piece,
                                  NO_COUNTER);
    if (!push_one(p, lane, command, deadline)) {
      return false;
    }
  }
  return true;
}

// The lane's notices count its flushes, each of which is awaited before the next.
__device__ __forceinline__ bool flush_by_ring(const DevicePut& p, u32 lane, u32 peer, u64 deadline) {
  Command command = flush_command(peer, lane_of_ring(p, lane), lane);
  bool done = push_one(p, lane, command, deadline);
  if (done && lane_id() == 0) {
    u64 wanted = ++p.flushes[lane];
    done = await_count(p.rings, p.rings.flush_counters + lane, wanted, peer, deadline);
  }
  return __shfl_sync(0xffffffff, done, 0);
}

// --- what kernels call -------------------------------------------------------------------------

// Whole warps: bytes of this rank's memory, from `source` there to `target` in that of `peer`; offsets and
// bytes are multiples of 16. What this warp has written there before is what goes; it does not change until
// a flush has come back. False if a ring has stopped, or has no room within the deadline (of
// nanoseconds()).
__device__ __forceinline__ bool put(const DevicePut& p, u32 lane, u32 peer, u64 target, u64 source,
                                    u64 bytes, u64 deadline) {
  char* there = p.peers[peer];
  // Each lane copies what others of the warp have written.
  __syncwarp();
  if (there != nullptr) {
    copy_bytes(there + target, p.own + source, bytes);
    return true;
  }
#if EP4J_PUT_TRANSPORT == 2
  ep4j_library_put(p.library, p.window, lane, peer, target, source, bytes);
  return true;
#else
  return PUT_CARRIER == PUT_RINGS && put_by_ring(p, lane, peer, target, source, bytes, deadline);
#endif
}

// Whole warps: lets a signal of `peer` grow after all that this warp has put there on this lane. False as
// for put.
__device__ __forceinline__ bool signal(const DevicePut& p, u32 lane, u32 peer, u32 number, u64 value,
                                       u64 deadline) {
  char* there = p.peers[peer];
  // The release of one lane covers what the others stored.
  __syncwarp();
  if (there != nullptr) {
    if (lane_id() == 0) {
      add_release_system((u64*)(there + p.signal_words) + number, value);
    }
    return true;
  }
#if EP4J_PUT_TRANSPORT == 2
  ep4j_library_signal(p.library, p.window, p.signal_words, lane, peer, number, value);
  return true;
#else
  return PUT_CARRIER == PUT_RINGS &&
         push_one(p, lane, add_command(peer, lane_of_ring(p, lane), number, value), deadline);
#endif
}

// Whole warps: waits until what this warp has put to `peer` on this lane may be overwritten here. False if
// that cannot be known within the deadline, which libraries do not look at.
__device__ __forceinline__ bool flush(const DevicePut& p, u32 lane, u32 peer, u64 deadline) {
  __syncwarp();
  if (p.peers[peer] != nullptr) {
    return true;  // stores have read their source
  }
#if EP4J_PUT_TRANSPORT == 2
  ep4j_library_flush(p.library, lane);
  return true;
#else
  return PUT_CARRIER == PUT_RINGS && flush_by_ring(p, lane, peer, deadline);
#endif
}

// One thread: a signal of this rank, acquire.
__device__ __forceinline__ u64 signal_value(const DevicePut& p, u32 number) {
  u64 value = load_acquire_system((const u64*)(p.own + p.signal_words) + number);
#if EP4J_PUT_TRANSPORT == 2
  value += ep4j_library_signals(p.library, number);
#else
  if (PUT_CARRIER == PUT_RINGS) {
    value += load_acquire_system(p.counters + number);
  }
#endif
  return value;
}

// Whole warps: waits for a signal of this rank that `from` lets grow; then what it stands for can be seen
// by all lanes. False after the deadline, or when nothing more comes from that rank.
__device__ __forceinline__ bool await_signal(const DevicePut& p, u32 number, u32 from, u64 threshold,
                                             u64 deadline) {
  bool there = true;
  if (lane_id() == 0) {
    for (u32 polls = 1; signal_value(p, number) < threshold; polls++) {
      if ((polls & 0xf) != 0) {
        continue;
      }
      if (nanoseconds() > deadline ||
          (PUT_CARRIER == PUT_RINGS && load_acquire_system(&p.rings.failures[from]) != 0)) {
        // What came before the failure counts.
        there = signal_value(p, number) >= threshold;
        break;
      }
    }
  }
  there = __shfl_sync(0xffffffff, there, 0);
  // Shuffles order no memory: what one lane has acquired is for all.
  __syncwarp();
  return there;
}

// Where in this rank's memory arrives what `from` puts.
__device__ __forceinline__ const char* arrivals(const DevicePut& p, u32 from) {
  return PUT_CARRIER == PUT_RINGS && p.peers[from] == nullptr ? p.incoming : p.own;
}
