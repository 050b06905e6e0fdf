// Ranks of other nodes, as kernels see them: instead of loads and stores over NVLink, memory that
// rows are written to and read from, counters, and commands to a carrier (internode_transport.cuh).
// The carrier is the proxy, with host memory, or a library, with GPU memory.
//
// A node is a run of ranks. A token crosses to another node once, to the rank of the same position
// there: its source's rail in that node. Ranks that exchange tokens are partners; each pair has a
// ring of slots in each direction, in landing memory of the receiver. Slots are numbered from the
// opening of the buffer, or its last reset, and filled in that order by any warp; the slot's
// content is defined by the operation.
//
//   slot      writer: the filler; it then submits an add to `arrived` (after the put, on the same lane, if
//             the slot has to be carried); waiter: the receiver on the counter, acquire
//   arrived   counters, [slots] at the receiver: how often the place has been filled
//   credits   counters, [slots] at the filler: how often the place has been emptied. Writer: the receiver
//             submits an add once all its reads of the slot have returned; waiter: the filler, acquire.
//             A credit also implies that the carrier has read the slot.
//   seen      device, a copy of `arrived` and `credits`. Writer: the warp that polls them, atomic maximum.
//             Readers: the other warps, relaxed; once the value suffices, they read the counter itself,
//             acquire. So polls need no fence, which would wait for all that this GPU writes to the host.
//   polling   device, 1 while a warp polls the counters of a ring: atomic exchange. No waiter.
//   polls_done  device, number of polls, approximate: the polling warp reads and writes it, relaxed. No
//             waiter.
//   counts    [ranks, count_stride] in landing memory of the receiver. Writer: block 0 of each rank, relaxed
//             and behind a fence, or by put; reader: block 0 of the receiver after `counts_published`
//   counts_published
//             counters, [ranks] at the receiver: how often a rank's counts have been written. Writer: the
//             first warp of block 0, which wrote them, submits an add (after the put, on the same lane, if
//             they have to be carried); waiter: block 0 of the receiver, acquire
//   sent, taken, published_rounds
//             device: slots and count rounds of the operations that ended. Writer: the last block of a
//             kernel; reader: the next kernel. No waiter.
//
// Number n is in place n % slots. It may be filled once credits > n / slots - 1, and has arrived
// once arrived > n / slots. Places need no mutual order, so the lane of a number does not matter,
// nor does the lack of order between lanes.
//
// Transport of slots: mapped: kernels of the filler write the receiver's memory directly and only
// counters travel by command. Not mapped: kernels write a slot of their own outgoing memory and
// submit a put.
//
// A wait ends early when the proxy reports the rank as failed (`failures`).
#pragma once
#include "internode/internode_transport.cuh"
#include "common/protocol.cuh"
#include "structs/internode_partner.cuh"
#include "structs/internode_world.cuh"

constexpr u32 MAX_SLOTS = 128;

// This GPU's copy of the counters of a ring; device memory; monotonic.
struct ObservedCounters {
  u64 polling;  // 1 while a warp polls the counters
  u64 polls_done;   // number of polls, approximate
  u64 unused[14];
  u64 values[MAX_SLOTS];
};

__device__ __forceinline__ bool is_intranode(const InternodeWorld& world, u32 rank) {
  return rank >= world.first && rank < world.end;
}

// Alignment of the records of a slot, of the rows in them, and of pieces of rows. Unaligned data
// crosses a bus in more packets than it fills and leaves lines of host memory half written.
constexpr u32 SLOT_LINE = 128;

__device__ __forceinline__ u32 whole_lines(u32 bytes) {
  return (bytes + SLOT_LINE - 1) / SLOT_LINE * SLOT_LINE;
}

__device__ __forceinline__ u64 slot_at(const InternodeWorld& world, u64 number) {
  return number % world.slots * world.slot_bytes;
}

// Waits for a counter of the wire; one thread, the witness. A timeout is reported as by wait_epoch.
__device__ __forceinline__ bool wait_counter(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                             u64 threshold, u64 phase, u32 rank) {
  WaitTime time{true};
  for (u32 polls = 1;; polls++) {
    u64 seen = count_acquire(world.transport, at);
    if (seen >= threshold) {
      time.end(w, polls, rank);
      return true;
    }
    time.begin(polls);
    // Each poll may cross PCIe, so the checks run every 16 polls.
    if ((polls & 0xf) == 0) {
      if (is_peer_lost(world.transport, rank) && count_acquire(world.transport, at) < threshold) {
        fail_wait(w, phase, rank, threshold, seen);
        return false;
      }
      if (should_abort(w, polls << 4, phase, rank, rank, threshold, seen)) {
        return false;
      }
    }
  }
}

// Called by the polling warp: reads the counters of a ring, at `at`. A whole warp.
__device__ __forceinline__ void refresh_counters(const InternodeWorld& world, const u64* at, ObservedCounters* seen) {
  for (u64 i = lane_id(); i < world.slots; i += 32) {
    u64 now = count_relaxed(world.transport, at + i);
    if (now > load_relaxed_system(&seen->values[i])) {
      atomicMax(&seen->values[i], now);
    }
  }
  __syncwarp();
}

// Called by the polling warp: whether the host or the proxy knows that the wait cannot succeed. One thread.
__device__ __forceinline__ bool host_should_abort(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                               u64 threshold, u32 rank) {
  return host_aborts(w, rank) ||
         (is_peer_lost(world.transport, rank) && count_acquire(world.transport, at) < threshold);
}

// A poll takes 1 to 10 us.
constexpr u64 POLLS_PER_HOST_CHECK = 32;

// Whole warps: waits until counter `place` of a ring's counters, at `at`, has reached `threshold`.
// One warp of the GPU at a time polls the counters for all warps that wait for a ring, and stores
// the values in `seen`: polls of counters in host memory cross PCIe, and even a rare poll by every
// warp halves the other traffic.
__device__ __forceinline__ bool await_counter(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                            ObservedCounters* seen, u64 place, u64 threshold, u64 phase,
                                            u32 rank, bool witness) {
  WaitTime time{witness && is_first_lane()};
  for (u32 polls = 1;; polls++) {
    u64 value = load_relaxed_system(&seen->values[place]);
    // Once it is known to be reached, the counter itself is acquired, to see the data.
    if (__any_sync(0xffffffff, value >= threshold) &&
        __any_sync(0xffffffff, is_first_lane() && count_acquire(world.transport, at + place) >= threshold)) {
      time.end(w, polls, rank);
      __syncwarp();
      return true;
    }
    time.begin(polls);
    bool asks = is_first_lane() && atomicExch(&seen->polling, 1ull) == 0;
    bool over = false;
    if (__any_sync(0xffffffff, asks)) {
      refresh_counters(world, at, seen);
      if (is_first_lane()) {
        u64 polls_done = load_relaxed_system(&seen->polls_done) + 1;
        store_relaxed_system(&seen->polls_done, polls_done);
        // An aborting warp raises `abort`, which the other warps see.
        if (polls_done % POLLS_PER_HOST_CHECK == 0 && host_should_abort(world, w, at + place, threshold, rank)) {
          fail_wait(w, phase, rank, threshold, value);
          over = true;
        }
        atomicExch(&seen->polling, 0ull);
      }
    }
    if ((polls & 0xff) == 0 && is_first_lane()) {
      // 1: a number of polls at which should_abort() does not read host memory; the polling warp
      // does that.
      over = over || should_abort(w, 1, phase, rank, rank, threshold, value);
    }
    if (__any_sync(0xffffffff, over)) {
      return false;
    }
  }
}

// Whole warps: waits until the slot may be filled.
__device__ __forceinline__ bool wait_credit(const InternodeWorld& world, const WaitContext& w, u32 q,
                                            u64 number) {
  const InternodePartner& partner = world.partner[q];
  return await_counter(world, w, partner.credits, &world.seen[2 * q], number % world.slots,
                     number / world.slots, PHASE_ROOM, (u32)partner.rank, false);
}

// Whole warps: waits until the slot has arrived.
__device__ __forceinline__ bool wait_slot(const InternodeWorld& world, const WaitContext& w, u32 q, u64 number,
                                          bool witness) {
  const InternodePartner& partner = world.partner[q];
  bool there = await_counter(world, w, partner.arrived, &world.seen[2 * q + 1], number % world.slots,
                           number / world.slots + 1, PHASE_ROWS, (u32)partner.rank, witness);
  // Bulk loads follow.
  fence_proxy();
  __syncwarp();
  return there;
}

// Whole warps: checks the result of a submission; a stopped ring aborts the operation.
__device__ __forceinline__ bool check_submitted(const WaitContext& w, u32 rank, bool done) {
  if (!done && is_first_lane()) {
    fail_wait(w, PHASE_ROOM, rank, 1, 0);
  }
  return done;
}

// Whole warps: sends a filled slot, of which `bytes` (a multiple of 16) are in use. The slot must
// be complete: bulk stores waited for and fenced from the asynchronous proxy. A caller that is not
// FENCED has executed the system-wide fence itself.
template <bool FENCED = true>
__device__ __forceinline__ bool send_slot(const InternodeWorld& world, const WaitContext& w,
                                          const InternodePartner& partner, u64 number, u64 bytes) {
  u32 ring = (u32)(number % world.transport.rings.rings);
  u32 lane = (u32)(number / world.transport.rings.rings % world.lanes);
  bool puts = !world.mapped && is_first_lane();
  bool adds = is_lane(1);
  Command command =
      adds ? add_command((u32)partner.rank, lane,
                         (u32)(partner.remote_arrived + number % world.slots), 1)
           : put_command((u32)partner.rank, lane, partner.out_source + slot_at(world, number),
                         partner.out_target + slot_at(world, number), bytes, NO_COUNTER);
  return submit<FENCED>(world.transport, ring, puts || adds, command, w.deadline);
}

// Whole warps: returns an emptied slot to its filler.
__device__ __forceinline__ bool return_slot(const InternodeWorld& world, const WaitContext& w,
                                            const InternodePartner& partner, u64 number) {
  u32 ring = (u32)(number % world.transport.rings.rings);
  u32 lane = (u32)(number / world.transport.rings.rings % world.lanes);
  __syncwarp();
  // Loads have returned, and nothing was written: no fence.
  return submit<false>(world.transport, ring, is_first_lane(),
                          add_command((u32)partner.rank, lane,
                                      (u32)(partner.remote_credits + number % world.slots), 1),
                          w.deadline);
}
