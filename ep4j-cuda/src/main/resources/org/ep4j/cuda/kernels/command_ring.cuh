// Rings of commands from kernels to the threads of the host that post them to a wire: for GPUs that
// cannot ring a network card. The host's side is org.ep4j.cuda.proxy.
//
// A command is two words in page-locked host memory. Places are numbered from 0 by tickets; ticket t
// lies at t % capacity, in lap t / capacity.
//
//   head      device  next ticket; warps add to it, atomically. Nobody waits for it.
//   command   host    one warp writes it, having its ticket: relaxed, behind a system-wide fence. The
//                     highest bit of each word is 1 in even laps and 0 in odd ones, so the host knows
//                     each word on its own from that of the lap before, nothing is cleared, and the two
//                     may come one after the other. The host reads both with acquire: what the warp
//                     wrote before it pushed can be seen by whoever acts on the command.
//   tail      host    number of commands that the host has read: one thread of the host, release. Who
//                     has acquired a tail may write the tickets below tail + capacity. Its highest bit
//                     says that the host reads no more.
//   seen      device  the highest tail that any warp has read, behind a fence: looking at the host's
//                     takes a microsecond. Its highest bit says that the ring has stopped, whoever
//                     stopped it. Warps with no room wait for it.
//   asking    device  1 while a warp looks at the tail for all: one look at a time crosses PCIe. Atomic
//                     exchange; nobody waits for it.
//   failed    device  1 once a push has given up: atomic exchange, so that one warp writes the record.
//                     Nobody waits for it.
//   record    host    what that push left: its `state` last, release. The host reads it once kernels
//                     have ended or waits are vain. Nobody on the GPU does.
//   failure   host    by rank: not 0 once nothing goes to that rank, or comes from it, any more (see
//                     LaneFailure.Cause, counted from 1): threads of the host, release; whoever waits
//                     for that rank reads it with acquire.
//   notice    host    counts flushes: one thread of the host, release; read with acquire. It belongs to
//                     lanes of one thread.
//
// A push takes a fixed number of steps while there is room. Tickets are handed out without looking, so a
// warp that finds no room within its deadline leaves a hole, behind which the host reads nothing: it
// stops the ring, says so in the ring's record, and all others leave too. It never traps. What was
// pushed before the hole is posted. A ring that has stopped stays so until the proxy is opened anew.
//
// Order: commands of one warp in one ring are read in the order of its pushes, those of one push by lane.
#pragma once
#include "ptx.cuh"

constexpr u64 RING_STOPPED = 1ull << 63;
constexpr u64 COMMAND_LAP = 1ull << 63;
constexpr u32 TAIL_WORDS = 16;  // a tail has 128 bytes to itself

// 128 bits: offsets and lengths in units of 16 bytes.
//   first   0-31 source, 32-51 length, 52-59 lane, 60-62 operation, 63 lap
//   second  0-31 target, 32-50 counter, 51-62 destination, 63 lap
// An add has the low half of its value in the place of the source, the high half in that of the target.
// The lane is counted among those of the ring's thread.
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

  // What it says, before it has a lap.
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
  u64 failed;  // 1 once a push of this ring has given up: atomic exchange
  u64 unused_too[13];
};

// Mapped host memory, one a ring: what a push leaves that gave up. `state` is written last, release.
struct RingRecord {
  u64 state;   // 0 nothing, 1 there was no room
  u64 ticket;  // the last one that it had
  u64 tail;    // the last one that it saw
  u64 left;    // ns of the time it had; negative past the deadline
  u64 unused[4];
};

struct CommandRings {
  u64* commands;         // mapped host memory, [rings, capacity, 2]
  const u64* tails;      // mapped host memory, [rings, TAIL_WORDS]
  RingControl* control;  // device memory, [rings]
  RingRecord* records;   // mapped host memory, [rings]
  const u64* failures;   // mapped host memory, [ranks]
  const u64* flush_counters;    // mapped host memory, [notices]
  u64 rings;
  u64 capacity;  // a power of two, at least 64
};

// Bytes of this rank, at an offset of its source region, to an offset of the target region of `peer`, where
// `counter` grows by 1 once all are there. Offsets and bytes are multiples of 16.
__device__ __forceinline__ Command put_command(u32 peer, u32 lane, u64 source, u64 target, u64 bytes,
                                               u32 counter) {
  return Command{source / COMMAND_UNIT | bytes / COMMAND_UNIT << LENGTH_SHIFT |
                     (u64)lane << LANE_SHIFT | (u64)COMMAND_PUT << OPERATION_SHIFT,
                 target / COMMAND_UNIT | (u64)counter << COUNTER_SHIFT |
                     (u64)peer << DESTINATION_SHIFT};
}

// Lets a counter of `peer` grow after all that was pushed for this lane before, by the same warp.
__device__ __forceinline__ Command add_command(u32 peer, u32 lane, u32 counter, u64 value) {
  return Command{(u32)value | (u64)lane << LANE_SHIFT | (u64)COMMAND_ADD << OPERATION_SHIFT,
                 value >> 32 | (u64)counter << COUNTER_SHIFT | (u64)peer << DESTINATION_SHIFT};
}

// Lets a notice of this rank grow by 1 once the local bytes of all that was pushed for this lane before, by
// the same warp, may change.
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

// The rare part of a push: waits until the tickets below `end` may be written. One thread of a warp.
__device__ __noinline__ bool await_room(const CommandRings& rings, u32 ring, u64 end, u64 deadline) {
  RingControl* control = rings.control + ring;
  for (;;) {
    u64 tail = load_relaxed_system(&control->seen);
    if (!has_room(rings, tail, end) && (tail & RING_STOPPED) == 0 &&
        atomicExch(&control->polling, 1ull) == 0) {
      tail = load_acquire_system(rings.tails + (u64)ring * TAIL_WORDS);
      // Who sees it in `seen` may write where the host has read.
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

// Whole warps. A ticket for each lane of `lanes`, which is not empty; NO_TICKET on all lanes if the ring has
// stopped. Tickets that were given out are written: see publish.
__device__ __forceinline__ u64 claim(const CommandRings& rings, u32 ring, u32 lanes, u64 deadline) {
  u64 first = 0;
  if (lane_id() == 0) {
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

// Whole warps: the lanes with a command write it; FENCED behind what the warp wrote before.
template <bool FENCED = true>
__device__ __forceinline__ void publish(const CommandRings& rings, u32 ring, bool mine, u64 ticket,
                                        Command command) {
  // The fence behind it covers what the other lanes wrote, too.
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

// Whole warps: pushes the commands of the lanes that have one. False on all lanes if the ring has stopped,
// or stops now because there was no room within the deadline (of the GPU's nanosecond clock).
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

// Waits for a word that only grows, a notice or a counter of the wire; one thread. False when nothing more
// comes from `peer`, or after the deadline.
__device__ __noinline__ bool await_count(const CommandRings& rings, const u64* at, u64 threshold, u32 peer,
                                         u64 deadline) {
  for (u32 polls = 1;; polls++) {
    if (load_acquire_system(at) >= threshold) {
      return true;
    }
    if ((polls & 0xf) == 0) {
      if (load_acquire_system(&rings.failures[peer]) != 0) {
        // What came before the failure counts.
        return load_acquire_system(at) >= threshold;
      }
      if (nanoseconds() > deadline) {
        return false;
      }
    }
  }
}
