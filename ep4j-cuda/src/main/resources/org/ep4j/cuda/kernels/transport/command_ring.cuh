// Rings of commands from kernels to the host threads that post them to a wire, for GPUs that cannot
// drive a network card themselves. Host side: org.ep4j.cuda.internode.proxy.
//
// A command is two words in page-locked host memory. Tickets number the positions from 0; ticket t
// is at t % capacity, in lap t / capacity.
//
//   word      memory  writer, order, waiter
//   head      device  next ticket. Writers: warps, atomic add. No waiter.
//   command   host    writer: the warp that holds its ticket; relaxed, behind a system-wide fence. The
//                     highest bit of each word is 1 in even laps and 0 in odd ones, so the host tells
//                     each word from that of the previous lap, nothing is cleared, and the two words may
//                     arrive separately. Reader: the host, acquire on both; a thread that acts on the
//                     command sees what the warp wrote before the push.
//   tail      host    number of commands that the host has read. Writer: one host thread, release. A
//                     warp that has acquired a tail may write the tickets below tail + capacity. Highest
//                     bit: the host reads no more.
//   seen      device  highest tail that any warp has read. Writer: that warp, behind a fence; it saves
//                     the others a read of host memory (a microsecond). Highest bit: the ring has
//                     stopped, for any reason. Waiters: warps without room.
//   polling   device  1 while a warp reads the tail for all: one read at a time crosses PCIe. Atomic
//                     exchange; no waiter.
//   failed    device  1 once a push has aborted: atomic exchange, so that one warp writes the record. No
//                     waiter.
//   record    host    report of that push. Writer: that warp, `state` last, release. Reader: the host,
//                     once kernels have ended or waits must abort. No waiter on the GPU.
//   failure   host    one a rank: not 0 once the wire neither sends to nor receives from that rank (see
//                     LaneFailure.Cause, counted from 1). Writers: host threads, release. Readers: warps
//                     that wait for that rank, acquire.
//   flush     host    flush counters. Writer: one host thread, release; waiter: a warp, acquire. A
//   counter           counter belongs to lanes of one thread.
//
// A push takes a fixed number of steps while there is room. Tickets are handed out unconditionally,
// so a warp that finds no room by its deadline leaves a hole, behind which the host reads nothing:
// the warp stops the ring, writes the ring's record, and all other warps abort too. It never traps.
// Commands before the hole are posted. A stopped ring stays stopped until the proxy is opened
// again.
//
// Order: commands of one warp in one ring are read in push order, commands of one push in lane
// order.
#pragma once
#include "common/ptx.cuh"
#include "structs/command_rings.cuh"

constexpr u64 RING_STOPPED = 1ull << 63;
constexpr u64 COMMAND_LAP = 1ull << 63;
constexpr u32 TAIL_WORDS = 16;  // each tail has its own 128 bytes

// 128 bits: offsets and lengths in units of 16 bytes.
//   first   0-31 source, 32-51 length, 52-59 lane, 60-62 operation, 63 lap
//   second  0-31 target, 32-50 counter, 51-62 destination, 63 lap
// An add stores the low half of its value in the source field and the high half in the target
// field. The lane is an index among the lanes of the ring's thread.
constexpr u32 COMMAND_UNIT = 16;
constexpr u32 LENGTH_SHIFT = 32;
constexpr u32 LANE_SHIFT = 52;
constexpr u32 OPERATION_SHIFT = 60;
constexpr u32 COUNTER_SHIFT = 32;
constexpr u32 DESTINATION_SHIFT = 51;
constexpr u32 NO_COUNTER = (1u << 19) - 1;

enum CommandOperation { COMMAND_PUT = 1, COMMAND_ADD = 2, COMMAND_FLUSH = 3 };

struct Command {
  u64 first;
  u64 second;

  // Decoded fields; valid before the lap bit is set.
  __device__ __forceinline__ u32 operation() const { return (u32)(first >> OPERATION_SHIFT); }
  __device__ __forceinline__ u32 peer() const { return (u32)(second >> DESTINATION_SHIFT); }
  __device__ __forceinline__ u32 counter() const { return (u32)(second >> COUNTER_SHIFT) & NO_COUNTER; }
  __device__ __forceinline__ u64 source() const { return (u64)(u32)first * COMMAND_UNIT; }
  __device__ __forceinline__ u64 target() const { return (u64)(u32)second * COMMAND_UNIT; }
  __device__ __forceinline__ u64 bytes() const { return (first >> LENGTH_SHIFT & 0xfffff) * COMMAND_UNIT; }
  __device__ __forceinline__ u64 value() const { return (u32)first | second << 32; }
};

// Device memory, one a ring.
struct RingControl {
  u64 head;
  u64 unused[15];
  u64 seen;
  u64 polling;
  u64 failed;  // 1 once a push of this ring has aborted: atomic exchange
  u64 unused_too[13];
};

// Mapped host memory, one a ring: report of an aborted push. `state` is written last, release.
struct RingRecord {
  u64 state;   // 0: none, 1: no room
  u64 ticket;  // its last ticket
  u64 tail;    // the last tail that it read
  u64 left;    // ns left until the deadline; negative past it
  u64 unused[4];
};

// Copies bytes of this rank, at an offset of its source region, to an offset of the target region
// of `peer`; `counter` there grows by 1 once all bytes have arrived. Offsets and bytes are
// multiples of 16.
__device__ __forceinline__ Command put_command(u32 peer, u32 lane, u64 source, u64 target, u64 bytes,
                                               u32 counter) {
  return Command{source / COMMAND_UNIT | bytes / COMMAND_UNIT << LENGTH_SHIFT |
                     (u64)lane << LANE_SHIFT | (u64)COMMAND_PUT << OPERATION_SHIFT,
                 target / COMMAND_UNIT | (u64)counter << COUNTER_SHIFT |
                     (u64)peer << DESTINATION_SHIFT};
}

// Adds to a counter of `peer` after all earlier commands of the same warp for this lane.
__device__ __forceinline__ Command add_command(u32 peer, u32 lane, u32 counter, u64 value) {
  return Command{(u32)value | (u64)lane << LANE_SHIFT | (u64)COMMAND_ADD << OPERATION_SHIFT,
                 value >> 32 | (u64)counter << COUNTER_SHIFT | (u64)peer << DESTINATION_SHIFT};
}

// Adds 1 to a flush counter of this rank once the local bytes of all earlier commands of the same
// warp for this lane may change.
__device__ __forceinline__ Command flush_command(u32 peer, u32 lane, u32 flush_counter) {
  return Command{(u64)lane << LANE_SHIFT | (u64)COMMAND_FLUSH << OPERATION_SHIFT,
                 (u64)flush_counter << COUNTER_SHIFT | (u64)peer << DESTINATION_SHIFT};
}

__device__ __forceinline__ bool has_room(const CommandRings& rings, u64 tail, u64 end) {
  return (tail & RING_STOPPED) == 0 && end <= tail + rings.capacity;
}

__device__ __noinline__ void stop_ring(const CommandRings& rings, u32 ring, u64 end, u64 tail,
                                       u64 deadline) {
  RingControl* control = rings.control + ring;
  if (atomicExch(&control->failed, 1ull) == 0) {
    RingRecord* record = rings.records + ring;
    record->ticket = end - 1;
    record->tail = tail;
    record->left = deadline - nanoseconds();
    store_release_system(&record->state, 1);
  }
  atomicOr(&control->seen, RING_STOPPED);
}

// The slow path of a push: waits until the tickets below `end` may be written. One thread of a
// warp.
__device__ __noinline__ bool await_room(const CommandRings& rings, u32 ring, u64 end, u64 deadline) {
  RingControl* control = rings.control + ring;
  for (;;) {
    u64 tail = load_relaxed_system(&control->seen);
    if (!has_room(rings, tail, end) && (tail & RING_STOPPED) == 0 &&
        atomicExch(&control->polling, 1ull) == 0) {
      tail = load_acquire_system(rings.tails + (u64)ring * TAIL_WORDS);
      // Orders the host's reads before the writes of any warp that reads this `seen`.
      __threadfence();
      atomicMax(&control->seen, tail);
      atomicExch(&control->polling, 0ull);
    }
    if (has_room(rings, tail, end)) {
      return true;
    }
    if ((tail & RING_STOPPED) != 0) {
      return false;
    }
    if (nanoseconds() > deadline) {
      stop_ring(rings, ring, end, tail, deadline);
      return false;
    }
  }
}

constexpr u64 NO_TICKET = ~0ull;

// Whole warps. A ticket for each lane of `lanes`, which is not empty; NO_TICKET on all lanes if the
// ring has stopped. Every granted ticket must be written: see publish.
__device__ __forceinline__ u64 claim(const CommandRings& rings, u32 ring, u32 lanes, u64 deadline) {
  u64 first = 0;
  if (is_first_lane()) {
    RingControl* control = rings.control + ring;
    u32 count = __popc(lanes);
    u64 tail = load_relaxed_system(&control->seen);
    first = atomicAdd(&control->head, (u64)count);
    if (!has_room(rings, tail, first + count) &&
        !await_room(rings, ring, first + count, deadline)) {
      first = NO_TICKET;
    }
  }
  first = __shfl_sync(0xffffffff, first, 0);
  return first == NO_TICKET ? NO_TICKET : first + __popc(lanes & ((1u << lane_id()) - 1));
}

// Whole warps: each lane with a command writes it; FENCED: behind the warp's earlier writes.
template <bool FENCED = true>
__device__ __forceinline__ void publish(const CommandRings& rings, u32 ring, bool mine, u64 ticket,
                                        Command command) {
  // The fence after the sync covers the writes of the other lanes too.
  __syncwarp();
  if (mine) {
    u64 lap = (ticket & rings.capacity) == 0 ? COMMAND_LAP : 0;
    u64* at = rings.commands + (ring * rings.capacity + (ticket & (rings.capacity - 1))) * 2;
    if constexpr (FENCED) {
      __threadfence_system();
    }
    store_pair_relaxed_system(at, command.first | lap, command.second | lap);
  }
}

// Whole warps: pushes the commands of the lanes that have one. False on all lanes if the ring has
// stopped, or stops now for lack of room at the deadline (of the GPU's nanosecond clock).
template <bool FENCED = true>
__device__ __forceinline__ bool push(const CommandRings& rings, u32 ring, bool mine, Command command,
                                     u64 deadline) {
  u32 lanes = __ballot_sync(0xffffffff, mine);
  if (lanes == 0) {
    return true;
  }
  u64 ticket = claim(rings, ring, lanes, deadline);
  if (ticket == NO_TICKET) {
    return false;
  }
  publish<FENCED>(rings, ring, mine, ticket, command);
  return true;
}

// Waits for a monotonic word: a flush counter or a wire counter; one thread. False when `peer` has
// failed, or after the deadline.
__device__ __noinline__ bool await_count(const CommandRings& rings, const u64* at, u64 threshold, u32 peer,
                                         u64 deadline) {
  for (u32 polls = 1;; polls++) {
    if (load_acquire_system(at) >= threshold) {
      return true;
    }
    if ((polls & 0xf) == 0) {
      if (load_acquire_system(&rings.failures[peer]) != 0) {
        // Arrivals before the failure count.
        return load_acquire_system(at) >= threshold;
      }
      if (nanoseconds() > deadline) {
        return false;
      }
    }
  }
}
