// Ranks of other nodes, as kernels see them: no loads and stores over NVLink, but memory that rows are
// written to and read from, counters, and commands to what carries them (internode_transport.cuh): the proxy, with
// memory of the host, or a library, with memory of the GPU.
//
// A node is a run of ranks. A token crosses to another node once, to the rank of the same place there:
// its source's rail in that node. Ranks that exchange tokens are partners; between two of them there is
// a ring of slots in each direction, in landing memory of the receiver. Slots are filled in the
// order of their numbers, which count from the opening of the buffer on, or its last reset, by whichever
// warps; what lies in a slot says the operation.
//
//   slot      filler writes it, then hands over an add to `arrived` of the place (after the put, on the
//             same lane, if it has to be carried); the receiver waits for the counter, acquire
//   arrived   counters, [slots] at the receiver: how often the place has been filled
//   credits   counters, [slots] at the filler: how often the place has been emptied; the receiver hands over
//             an add once all its reads of the slot have returned; the filler waits for it, acquire. It
//             also says that what carried the slot has read it.
//   seen      device, a copy of `arrived` and `credits`: whichever warp looks at those leaves what it has
//             seen with an atomic maximum; the others read it, relaxed, and once it is enough the counter
//             itself, acquire. Looks need no fence then, which would wait for all that this GPU writes to
//             the host.
//   asking    device, 1 while a warp looks at the counters of a ring: atomic exchange. Nobody waits for it.
//   looks     device, about how often that was done: who asks reads and writes it, relaxed. Nobody waits.
//   counts    [ranks, count_stride] in landing memory of the receiver: block 0 of each rank writes its words, relaxed
//             and behind a fence, or has them put; block 0 of the receiver reads them after `counts_published`
//   told      counters, [ranks] at the receiver: how often the words of a rank's counts have been written;
//             the first warp of block 0 that has written them hands over an add (after the put, on the same
//             lane, if they have to be carried); block 0 of the receiver waits for it, acquire
//   sent, taken, tellings
//             device: slots and tellings of the operations that ended; the last block of a kernel writes
//             them, the next kernel reads them. Nobody waits for them.
//
// Number n lies in place n % slots: it may be filled once credits > n / slots - 1, and is there once
// arrived > n / slots. No order between places is needed, so it does not matter on which lane a number
// travels, nor that lanes know nothing of each other.
//
// How slots get there: mapped, kernels of the filler write the receiver's memory themselves and only
// the counters travel by command; else they write a slot of their own outgoing memory and push a put.
//
// A wait ends early when the proxy says that nothing more comes from the rank (`failures`).
#pragma once
#include "internode_transport.cuh"
#include "protocol.cuh"

// One partner; 8 bytes a field, in the order of org.ep4j.cuda.far.InternodeTable.
struct InternodePartner {
  u64 rank;
  u64 node;
  u64 is_receiver;             // 1: it is this rank's rail in `node`: own tokens for that node go to it
  u64 is_sender;             // 1: this rank is its rail: its tokens for this node come from it
  char* out;             // [slots] where slots for it are filled
  u64 out_source;        // not mapped: where `out` lies in the region of outgoing memory
  u64 out_target;        // not mapped: where its ring for this rank lies in its landing memory
  const char* in;        // [slots] where its slots arrive
  const u64* arrived;    // [slots] counters of this rank
  const u64* credits;    // [slots] counters of this rank
  u64 remote_arrived;     // number of its first counter `arrived` for this rank
  u64 remote_credits;
};

constexpr u32 MAX_SLOTS = 128;

// What this GPU has seen of the counters of a ring; device memory. They only grow.
struct ObservedCounters {
  u64 polling;  // 1 while a warp looks at the counters
  u64 polls_done;   // how often, about
  u64 unused[14];
  u64 values[MAX_SLOTS];
};

// Device memory; constant but for `sent` and `taken`. 8 bytes a field, InternodeTable.
struct InternodeWorld {
  u64 first;               // ranks of this node: from here
  u64 end;                 // to here
  u64 nodes;
  u64 node;
  const u32* node_of;      // [ranks]; NO_NODE: the rank is gone
  u64 partners;
  const InternodePartner* partner;  // ascending by rank
  const u32* rail_to;      // [nodes] partner that takes tokens for a node; no meaning for this node
  u64 slots;
  u64 slot_bytes;          // a multiple of 128
  u64 mapped;
  u64 lanes;               // of each ring's thread, to each rank; the library: 1
  u64* sent;               // [partners] slots that were filled in operations that ended: last block alone
  u64* taken;              // [partners] slots that were emptied: the same
  // Counts (see protocol.cuh) of ranks of other nodes.
  const u64* counts_published;         // [ranks] counters
  u64 remote_counts_published;          // number of this rank's counter `counts_published` at all others
  u64* published_rounds;           // dispatches with counts that ended: the same
  u64* counts_out;         // not mapped: this rank's words, one copy for all
  u64 counts_source;       // not mapped: where they lie in the region of outgoing memory
  u64 counts_target;       // not mapped: where they belong in the landing memory of every other rank
  u64* const* remote_counts;  // [ranks] mapped: where they belong
  const u64* counts_in;    // [ranks, count_stride] words of others
  u64 count_stride;
  ObservedCounters* seen;         // [partners, 2] credits, then arrived; device memory
  InternodeTransport transport;
};

__device__ __forceinline__ bool is_intranode(const InternodeWorld& world, u32 rank) {
  return rank >= world.first && rank < world.end;
}

// In a slot records, rows in them, and pieces of them begin at multiples of this: what does not, crosses
// a bus in more packets than it fills, and those leave lines of the host's memory half written.
constexpr u32 SLOT_LINE = 128;

__device__ __forceinline__ u32 whole_lines(u32 bytes) {
  return (bytes + SLOT_LINE - 1) / SLOT_LINE * SLOT_LINE;
}

__device__ __forceinline__ u64 slot_at(const InternodeWorld& world, u64 number) {
  return number % world.slots * world.slot_bytes;
}

// Waits for a counter of the wire; one thread. What it waited for is told as by wait_epoch.
__device__ __forceinline__ bool wait_counter(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                             u64 threshold, u64 phase, u32 rank) {
  for (u32 polls = 1;; polls++) {
    u64 seen = count_acquire(world.transport, at);
    if (seen >= threshold) {
      return true;
    }
    // Each look may cross PCIe: now and then is often.
    if ((polls & 0xf) == 0) {
      if (is_peer_lost(world.transport, rank) && count_acquire(world.transport, at) < threshold) {
        fail_wait(w, phase, rank, threshold, seen);
        return false;
      }
      if (should_abort(w, polls << 4, phase, rank, threshold, seen)) {
        return false;
      }
    }
  }
}

// Who asks looks at the counters of a ring, which lie at `at`. A whole warp.
__device__ __forceinline__ void refresh_counters(const InternodeWorld& world, const u64* at, ObservedCounters* seen) {
  for (u64 i = lane_id(); i < world.slots; i += 32) {
    u64 now = count_relaxed(world.transport, at + i);
    if (now > load_relaxed_system(&seen->values[i])) {
      atomicMax(&seen->values[i], now);
    }
  }
  __syncwarp();
}

// Who asks looks whether the host says that waiting is vain. One thread.
__device__ __forceinline__ bool host_should_abort(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                               u64 threshold, u32 rank) {
  return load_acquire_system(w.host_abort) != 0 ||
         (is_peer_lost(world.transport, rank) && count_acquire(world.transport, at) < threshold);
}

// A look takes 1 to 10 us.
constexpr u64 POLLS_PER_HOST_CHECK = 32;

// Whole warps: waits until counter `place` of a ring's counters, which lie at `at`, has reached
// `threshold`. One warp of the GPU at a time looks at the counters for those that wait for a ring, and leaves
// what it has seen to the others: where they lie in memory of the host looks cross PCIe, and even a rare
// look of every warp halves what else crosses it.
__device__ __forceinline__ bool await_counter(const InternodeWorld& world, const WaitContext& w, const u64* at,
                                            ObservedCounters* seen, u64 place, u64 threshold, u64 phase,
                                            u32 rank) {
  for (u32 polls = 1;; polls++) {
    u64 value = load_relaxed_system(&seen->values[place]);
    if (__any_sync(0xffffffff, value >= threshold)) {
      // Surely so; now with what was written before.
      if (lane_id() == 0) {
        count_acquire(world.transport, at + place);
      }
      __syncwarp();
      return true;
    }
    bool asks = lane_id() == 0 && atomicExch(&seen->polling, 1ull) == 0;
    bool over = false;
    if (__any_sync(0xffffffff, asks)) {
      refresh_counters(world, at, seen);
      if (lane_id() == 0) {
        u64 polls_done = load_relaxed_system(&seen->polls_done) + 1;
        store_relaxed_system(&seen->polls_done, polls_done);
        // Who gives up raises `abort`, which the others see.
        if (polls_done % POLLS_PER_HOST_CHECK == 0 && host_should_abort(world, w, at + place, threshold, rank)) {
          fail_wait(w, phase, rank, threshold, value);
          over = true;
        }
        atomicExch(&seen->polling, 0ull);
      }
    }
    if ((polls & 0xff) == 0 && lane_id() == 0) {
      // 1: not a number of polls at which it looks at the host, which is for who asks.
      over = over || should_abort(w, 1, phase, rank, threshold, value);
    }
    if (__any_sync(0xffffffff, over)) {
      return false;
    }
  }
}

// Whole warps: the slot may be filled.
__device__ __forceinline__ bool wait_credit(const InternodeWorld& world, const WaitContext& w, u32 q,
                                            u64 number) {
  const InternodePartner& partner = world.partner[q];
  return await_counter(world, w, partner.credits, &world.seen[2 * q], number % world.slots,
                     number / world.slots, PHASE_ROOM, (u32)partner.rank);
}

// Whole warps: the slot has come.
__device__ __forceinline__ bool wait_slot(const InternodeWorld& world, const WaitContext& w, u32 q, u64 number) {
  const InternodePartner& partner = world.partner[q];
  bool there = await_counter(world, w, partner.arrived, &world.seen[2 * q + 1], number % world.slots,
                           number / world.slots + 1, PHASE_ROWS, (u32)partner.rank);
  // Bulk loads come next.
  fence_proxy();
  __syncwarp();
  return there;
}

// Whole warps: what handing commands over said; a ring that has stopped ends the operation.
__device__ __forceinline__ bool check_submitted(const WaitContext& w, u32 rank, bool done) {
  if (!done && lane_id() == 0) {
    fail_wait(w, PHASE_ROOM, rank, 1, 0);
  }
  return done;
}

// Whole warps: the slot is filled, `bytes` (a multiple of 16) of it hold something. What was written to it
// must have been written: bulk stores waited for, and fenced from the proxy of bulk copies; a warp that
// is not FENCED has seen to the system-wide fence itself.
template <bool FENCED = true>
__device__ __forceinline__ bool send_slot(const InternodeWorld& world, const WaitContext& w,
                                          const InternodePartner& partner, u64 number, u64 bytes) {
  u32 ring = (u32)(number % world.transport.rings.rings);
  u32 lane = (u32)(number / world.transport.rings.rings % world.lanes);
  bool puts = !world.mapped && lane_id() == 0;
  bool adds = lane_id() == 1;
  Command command =
      adds ? add_command((u32)partner.rank, lane,
                         (u32)(partner.remote_arrived + number % world.slots), 1)
           : put_command((u32)partner.rank, lane, partner.out_source + slot_at(world, number),
                         partner.out_target + slot_at(world, number), bytes, NO_COUNTER);
  return submit<FENCED>(world.transport, ring, puts || adds, command, w.deadline);
}

// Whole warps: the slot is no longer needed.
__device__ __forceinline__ bool return_slot(const InternodeWorld& world, const WaitContext& w,
                                            const InternodePartner& partner, u64 number) {
  u32 ring = (u32)(number % world.transport.rings.rings);
  u32 lane = (u32)(number / world.transport.rings.rings % world.lanes);
  __syncwarp();
  // Loads have returned, and nothing was written: no fence.
  return submit<false>(world.transport, ring, lane_id() == 0,
                          add_command((u32)partner.rank, lane,
                                      (u32)(partner.remote_credits + number % world.slots), 1),
                          w.deadline);
}
