// Group words between mapped nodes: notifications that the rows of a group of tokens have arrived.
//
// In each block that sends rows one warp publishes. The other warps arrive at a barrier of each
// group once they have stored their share of it, without waiting. The publishing warp waits at the
// barrier, fences, which takes as long as the GPU's outstanding stores to the host, and notifies
// all ranks for its block alone. So no block waits for another, and no warp repeats the fence for
// the stores of other warps.
//
// Behind the words of a source in each area, intranode or internode:
//   ready[group][unit]  number | number of publishing units. Block b is unit b of them.
// Order: the block's rows, the barrier, a system-wide fence of each publishing lane, the word
// relaxed. Reader: the relay, one warp, one unit a lane: relaxed and then a fence of each lane for
// host memory, acquire for this rank's own memory. Once all units of a group have published, the
// lanes synchronize and one of them raises the group's word, release; waiter: warps that read rows,
// acquire. The source publishes the next number in this area only after it knows that this rank has
// received the operation, so after the relay has ended.
//
// If there are more blocks than UNITS, every UNITSth block shares a unit: they count in `progress`,
// and the last one publishes.
#pragma once
#include "lowlatency/low_latency_internode.cuh"

// Barriers of a block from this number on belong to groups.
constexpr u32 BARRIER_GROUPS = 4;

// Bits for the number of units in a published word.
constexpr u32 UNIT_BITS = 8;

// Groups that the relay polls at once.
constexpr u32 RELAY_BATCH = 8;

// The words of all units.
__device__ __forceinline__ u64* unit_words(const Operation& op, char* area, u32 source, u32 group) {
  return (u64*)(area + op.p.units_offset + source * op.p.source_bytes) + group * UNITS;
}

// --- receiving ----------------------------------------------------------------------------------

// Whether all units have published, given the word that each lane has read; a whole warp.
__device__ __forceinline__ bool all_units_ready(const Operation& op, u64 seen) {
  u32 ready = __ballot_sync(0xffffffff, seen >> UNIT_BITS == op.number);
  u32 word = __shfl_sync(0xffffffff, (u32)seen, ready == 0 ? 0 : __ffs(ready) - 1);
  u32 units = word & ((1u << UNIT_BITS) - 1);
  // Counts instead of comparing with a mask of `units` ones: a compiler that assumes such a mask is
  // never empty drops the first half of the condition, and then zero units published out of zero
  // would count as all.
  return ready != 0 && __popc(ready) == units;
}

// Polls for all warps of this GPU, also for intranode sources: one warp, which witnesses the waits. `tokens(s)`: number of
// tokens whose rows arrive from s. The first groups of all sources are polled first: rows are
// needed in that order.
template <class Tokens>
__device__ __forceinline__ void relay_units(const Operation& op, char* const* areas, Tokens tokens) {
  const LowLatencyParameters& p = op.p;
  u32 ranks = (u32)p.ranks;
  for (u32 begin = 0; begin < ranks * GROUPS; begin += RELAY_BATCH) {
    // This lane's group.
    u32 group = (begin + lane_id()) / ranks;
    u32 s = begin + lane_id() - group * ranks;
    bool mine = lane_id() < RELAY_BATCH && group < GROUPS && areas[s] != nullptr &&
                group < groups_of(op, tokens(s));
    bool is_internode = mine && op.is_internode(s);
    const u64* at = mine ? unit_words(op, op.from(s), s, group) : nullptr;
    u32 open = __ballot_sync(0xffffffff, mine);
    u32 internode_mask = __ballot_sync(0xffffffff, is_internode);
    u64 since = nanoseconds();
    u64 charged = since;  // until when waits for s have been charged
    u32 same = __match_any_sync(0xffffffff, s);
    for (u32 polls = 1; open != 0; polls++) {
      u64 seen[RELAY_BATCH];
      // All loads of host memory are issued before the first load of this GPU's memory is used.
#pragma unroll
      for (u32 i = 0; i < 2 * RELAY_BATCH; i++) {
        u32 j = i % RELAY_BATCH;
        if ((i < RELAY_BATCH ? open & internode_mask : open & ~internode_mask) >> j & 1) {
          const u64* word = (const u64*)__shfl_sync(0xffffffff, (u64)at, j) + lane_id();
          seen[j] = lane_id() >= UNITS ? 0 : i < RELAY_BATCH ? load_relaxed_system(word) : load_acquire_system(word);
        }
      }
      u32 arrived = 0;
#pragma unroll
      for (u32 j = 0; j < RELAY_BATCH; j++) {
        arrived |= open >> j & 1 && all_units_ready(op, seen[j]) ? 1u << j : 0;
      }
      open &= ~arrived;
      bool raises = arrived >> lane_id() & 1;
      // A source that sends rows of this operation has already acknowledged earlier operations.
      bool grants = raises && is_internode && group == 0;
      u64 grant = grants ? load_relaxed_system(op.received(p.internode_part, s)) : 0;
      if (arrived & internode_mask) {
        // Instead of acquire loads, each of which takes several times as long.
        __threadfence_system();
      }
      __syncwarp();
      if (raises) {
        store_release_gpu(group_word(op, op.own, s, group), op.number);
        if (grants) {
          store_relaxed_system(op.received(p.own, s), grant);
        }
        if (p.waits != nullptr) {
          record_wait(op, s, since);
        }
        if (polls > 1 && lane_id() + 1 == __ffs(arrived & same)) {
          charge_wait(p.control, s, charged);
        }
      }
      if (arrived & same) {
        charged = nanoseconds();
      }
      if (polls % 16 == 0) {
        bool should_abort = open >> lane_id() & 1 && should_abort_or_mask(op, polls << 8, PHASE_ROWS, s, op.number,
                                                      load_relaxed_system(at) >> UNIT_BITS);
        open &= ~__ballot_sync(0xffffffff, should_abort);
      }
    }
  }
}

// Polls for the rows of other nodes: one warp. `tokens(s)`: number of tokens whose rows arrive from s.
template <class Tokens>
__device__ __forceinline__ void relay_rows(const Operation& op, char* const* areas, Tokens tokens) {
  if constexpr (MAPPED) {
    relay_units(op, areas, tokens);
  } else {
    relay_counters<true>(op, areas, tokens);
  }
}

// --- sending ------------------------------------------------------------------------------------

// Progress of a sending warp through the groups of its tokens: whole warps, in token order.
template <bool PUBLISHED>
struct GroupProgress;

// Another warp of the block publishes the groups.
template <>
struct GroupProgress<true> {
  u32 threads;   // participants of the barrier: the sending warps and the publishing warp
  u32 done = 0;  // groups whose share this warp has stored

  __device__ __forceinline__ explicit GroupProgress(u32 warps) : threads(warps * 32) {}

  // Arrives at the barriers of all groups before `group`.
  __device__ __forceinline__ void reach(u32 group) {
    for (; done < group; done++) {
      __syncwarp();
      barrier_arrive(BARRIER_GROUPS + done, threads);
    }
  }
};

// There are no groups to publish.
template <>
struct GroupProgress<false> {
  __device__ __forceinline__ explicit GroupProgress(u32) {}
  __device__ __forceinline__ void reach(u32) {}
};

// Whether this block is the last of those that share its unit; a whole warp, after its fence.
__device__ __forceinline__ bool is_last_of_unit(const Operation& op, u32 group, u32 unit, u32 sharers) {
  bool last = false;
  if (is_first_lane()) {
    u64* progress = op.p.internode_state + op.p.ranks + group * UNITS + unit;
    last = atomicAdd(progress, 1ull) + 1 == sharers;
    if (last) {
      *progress = 0;
      __threadfence();
    }
  }
  last = __any_sync(0xffffffff, last);
  __syncwarp();
  return last;
}

// The publishing warp of one of `blocks` blocks that send rows of up to `tokens` tokens.
__device__ __forceinline__ void publish_groups(const Operation& op, char* const* areas, u32 tokens,
                                            u32 warps, u32 block, u32 blocks) {
  u32 unit = block % UNITS;
  u32 sharers = (blocks - unit + UNITS - 1) / UNITS;
  u64 word = op.number << UNIT_BITS | min(blocks, UNITS);
  bool publishes = lane_id() < op.p.ranks;
  for (u32 group = 0; group < groups_of(op, tokens); group++) {
    barrier_sync(BARRIER_GROUPS + group, warps * 32);
    if (publishes) {
      __threadfence_system();
    }
    __syncwarp();
    if (sharers > 1) {
      if (!is_last_of_unit(op, group, unit, sharers)) {
        continue;
      }
      if (publishes) {
        __threadfence_system();
      }
    }
    // A warp of this block whose wait was aborted has skipped rows.
    bool complete = !aborted(op.wait);
    for (u32 r = lane_id(); complete && r < op.p.ranks; r += 32) {
      // The same for the rows of a rank that it has masked.
      if (areas[r] != nullptr && (!op.p.masking || load_relaxed_system(&op.p.masks[r]) == 0)) {
        store_relaxed_system(unit_words(op, areas[r], (u32)op.p.rank, group) + unit, word);
      }
    }
  }
}
