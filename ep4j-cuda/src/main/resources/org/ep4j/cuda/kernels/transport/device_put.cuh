// Puts, signals and flushes from kernels, one interface for every backend: a kernel that includes
// this file is compiled and linked for the transport of its ranks. Host side:
// org.ep4j.cuda.put.DevicePut.
//
// Every rank has memory of one size, and a put names positions in it by offset. Transport of a put:
//   stores    to ranks whose memory this GPU has mapped, over NVLink
//   a carrier to all other ranks; chosen when the kernel is compiled (EP4J_PUT_TRANSPORT):
//     PUT_RINGS    commands to the proxy (command_ring.cuh). The payload is copied to host memory first,
//                  at the same offset, and arrives in host memory: see arrivals()
//     PUT_LIBRARY  device functions of NVSHMEM or of NCCL's GIN, linked to the kernel (library.cuh)
//
// Lanes are independent streams of work; one warp at a time uses a lane. Order: within a lane, to
// one peer, a signal takes effect after all earlier puts of this warp. Puts may overtake each
// other. Flushes wait; puts and signals wait only for room in a ring.
//
// Signals are monotonic words. Each has two parts; its value is their sum:
//   word      device memory of the receiver. Writers: ranks that reach it by stores, and NVSHMEM; add,
//             release. Waiter: the receiver, acquire.
//   carried   the carrier's count: a wire counter in host memory (writer: the wire, release; reader:
//             acquire), or a GIN signal
#pragma once
#include "transport/command_ring.cuh"
#include "transport/library.cuh"
#include "structs/device_put.cuh"

constexpr u32 PUT_STORES = 0;  // no carrier: all peers are reached by stores
constexpr u32 PUT_RINGS = 1;
constexpr u32 PUT_LIBRARY = 2;
constexpr u32 PUT_CARRIER = EP4J_PUT_TRANSPORT;

// Less than the maximum length that a command can encode.
constexpr u64 MAX_COMMAND_BYTES = 8ull << 20;

// Whole warps: bytes are a multiple of 16; the source must not change meanwhile.
__device__ __forceinline__ void copy_bytes(char* to, const char* from, u64 bytes) {
  constexpr u32 UNROLL = 8;  // vectors of a lane in flight
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
  return push(p.rings, ring_of(p, lane), is_first_lane(), command, deadline);
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

// The lane's flush counter counts its flushes; each is awaited before the next.
__device__ __forceinline__ bool flush_by_ring(const DevicePut& p, u32 lane, u32 peer, u64 deadline) {
  Command command = flush_command(peer, lane_of_ring(p, lane), lane);
  bool done = push_one(p, lane, command, deadline);
  if (done && is_first_lane()) {
    u64 wanted = ++p.flushes[lane];
    done = await_count(p.rings, p.rings.flush_counters + lane, wanted, peer, deadline);
  }
  return __shfl_sync(0xffffffff, done, 0);
}

// --- interface for kernels -----------------------------------------------------------------------

// Whole warps: copies bytes of this rank's memory at `source` to `target` in the memory of `peer`;
// offsets and bytes are multiples of 16. The payload is what this warp has written there before; it
// must not change until a flush has returned. False if a ring has stopped or has no room by the
// deadline (of nanoseconds()).
__device__ __forceinline__ bool put(const DevicePut& p, u32 lane, u32 peer, u64 target, u64 source,
                                    u64 bytes, u64 deadline) {
  char* there = p.peers[peer];
  // Each lane copies bytes that other lanes of the warp wrote.
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

// Whole warps: adds to a signal of `peer` after all that this warp has put there on this lane.
// False as for put.
__device__ __forceinline__ bool signal(const DevicePut& p, u32 lane, u32 peer, u32 number, u64 value,
                                       u64 deadline) {
  char* there = p.peers[peer];
  // The release of lane 0 covers the stores of the other lanes.
  __syncwarp();
  if (there != nullptr) {
    if (is_first_lane()) {
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

// Whole warps: waits until the sources of this warp's puts to `peer` on this lane may be
// overwritten. False if this is unknown at the deadline; libraries ignore the deadline.
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

// One thread: the value of a signal of this rank, acquire.
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

// Whole warps: waits for a signal of this rank that `from` raises; afterwards all lanes see the
// payload that it covers. False after the deadline, or when that rank sends no more.
__device__ __forceinline__ bool await_signal(const DevicePut& p, u32 number, u32 from, u64 threshold,
                                             u64 deadline) {
  bool there = true;
  if (is_first_lane()) {
    for (u32 polls = 1; signal_value(p, number) < threshold; polls++) {
      if ((polls & 0xf) != 0) {
        continue;
      }
      if (nanoseconds() > deadline ||
          (PUT_CARRIER == PUT_RINGS && load_acquire_system(&p.rings.failures[from]) != 0)) {
        // Arrivals before the failure count.
        there = signal_value(p, number) >= threshold;
        break;
      }
    }
  }
  there = __shfl_sync(0xffffffff, there, 0);
  // Shuffles order no memory: the sync extends lane 0's acquire to all lanes.
  __syncwarp();
  return there;
}

// The memory of this rank that receives the puts of `from`.
__device__ __forceinline__ const char* arrivals(const DevicePut& p, u32 from) {
  return PUT_CARRIER == PUT_RINGS && p.peers[from] == nullptr ? p.incoming : p.own;
}
