// Words that ranks and blocks share, and the waits for them. org.ep4j.cuda.struct.Control documents the
// control words at the start of each rank's region.
//
// Every operation on a buffer has an epoch: the value of `epoch` in the control words at kernel
// start, plus one. All ranks run the same operations in the same order, so their epochs agree. The
// host runs the kernels of a buffer one after the other, so a kernel has the control words of its
// rank to itself.
//
// Words in the region of rank d; writer: rank s over NVLink; waiter: d:
//   ready[s]   epoch: s has entered the operation, and everything before it on s has ended
//   done[s]    epoch: all that s sends to d in this operation has been written
//              and, in a combine that pulls, s has read all that it reads of d
//   counts[s]  one word a counter: low half of the epoch above, value below. The word carries its own
//              epoch, so it needs no flag, and its presence implies ready. Order: rows to each rank,
//              rows to each expert, row limit of s, alignment of its groups, its tokens.
//   groups[s]  epoch of the combine for which the four rows of a group have been written
//   arrivals   one word a slot of an EXPERT_MAJOR dispatch: low half of the epoch above, the token
//              below. Written after row and row metadata; relaxed behind a fence.
// Memory order: `ready` and `done` are written with system-wide release, `groups` with it or relaxed behind
// a fence; these and `arrivals` are read with acquire. Counts need no order, because each word is self-contained. All
// words only grow; nothing is reset between operations. A rank cannot overtake: it leaves a
// dispatch only after every peer's `done`, and a peer sends `done` only after all its blocks have
// read the counts.
//
// A rank that is missing since the last reset has no region: its entry among the peers is null, no
// rank writes to it or waits for it, and its experts belong to no rank.
//
// A wait that misses its deadline writes the awaited word into the record and raises `abort`, so
// that the other blocks leave too; the kernel ends with its work undone. Kernels never trap. The
// last block settles which rank the record of a high-throughput operation names
// (timeout_attribution.cuh).
//
// Fencing. A rank that its peers lose may only be suspended and may later launch kernels again. All
// words of the operation in which the peers lost it are present, so such a kernel would not wait at
// all. A survivor therefore writes `fenced_by` on that rank first, then waits until `running` is 0
// (org.ep4j.cuda.engine.failure.StaleRankFence); a kernel sets `running` before it reads `fenced_by`. Both
// are relaxed: the host leaves far more time between its two accesses than a store takes. A kernel
// that finds its rank fenced, at the start or during a wait, writes nothing more to peers except
// what the current operation would have written. A fence is permanent.
#pragma once
#include "common/observation.cuh"

// The report of a failed wait, in mapped host memory. Written last, release: `state`; for a timeout
// in a high-throughput operation, `attributed_epoch` by the last block. The host reads both with
// acquire and ignores such a timeout until `attributed_epoch` is set.
struct Record {
  u64 state;  // 0: none, else a State
  u64 epoch;
  u64 phase;
  u64 peer;
  u64 expected;
  u64 seen;
  u64 token;
  u64 choice;
  u64 left;  // ns left until the deadline; negative past it
  u64 attributed_epoch;  // epoch whose last block has settled which rank is missing
};

constexpr u32 NO_NODE = ~0u;  // node of a missing rank

// Writer of an awaited word that a block of this GPU writes, or a rank that forwards what another one has sent.
constexpr u64 NO_WRITER = ~0ull;

enum Phase { PHASE_ENTER = 1, PHASE_COUNTS = 2, PHASE_ROWS = 3, PHASE_BLOCKS = 4, PHASE_ROOM = 5 };
enum State {
  STATE_TIMEOUT = 1,
  STATE_NO_SUCH_EXPERT = 2,     // `expected` is the number of experts
  STATE_DUPLICATE = 3,
  STATE_NOT_AS_DISPATCHED = 4,  // low latency: a combine names another expert; `expected` is set
  STATE_OTHER_KIND = 5          // low latency: `peer` dispatches rows of another kind
};

// The state of a wait; one per thread.
struct WaitContext {
  Control* control;
  Record* record;
  const u64* host_abort;  // mapped host memory, [1 + ranks]: not 0 once the host knows that no wait can
                          // succeed; then, by rank: that none for this rank can
  u64 epoch;
  u64 deadline;           // on the GPU's nanosecond clock
};

// `epoch` is written by the last block of the previous kernel of the buffer, which has ended. So a
// relaxed load reads it, and the loads that follow do not wait for it.
__device__ __forceinline__ WaitContext make_wait_context(Control* control, Record* record, const u64* host_abort,
                                          u64 timeout) {
  return WaitContext{control, record, host_abort, load_relaxed_system(&control->epoch) + 1,
               nanoseconds() + timeout};
}

__device__ __noinline__ void fail_wait(const WaitContext& w, u64 phase, u64 peer, u64 expected, u64 seen) {
  // The first failure is reported; it overrides a bad routing.
  if (atomicExch(&w.control->failed, 1ull) == 0) {
    w.record->epoch = w.epoch;
    w.record->phase = phase;
    w.record->peer = peer;
    w.record->expected = expected;
    w.record->seen = seen;
    w.record->left = w.deadline - nanoseconds();
    store_release_system(&w.record->state, STATE_TIMEOUT);
  }
  store_release_gpu(&w.control->abort, w.epoch);
}

// Reports the first bad choice of an operation, or the first source of another kind, which is `peer`.
__device__ __noinline__ void bad_routing(const WaitContext& w, u64 state, u64 token, u64 choice, u64 id,
                                         u64 expected, u64 peer = 0) {
  if (atomicExch(&w.control->claimed, w.epoch) != w.epoch) {
    w.record->epoch = w.epoch;
    w.record->token = token;
    w.record->choice = choice;
    w.record->seen = id;
    w.record->expected = expected;
    w.record->peer = peer;
    store_release_system(&w.record->state, state);
  }
}

__device__ __forceinline__ bool aborted(const WaitContext& w) {
  return load_acquire_gpu(&w.control->abort) == w.epoch;
}

__device__ __forceinline__ bool is_fenced(const WaitContext& w) {
  return load_relaxed_system(&w.control->fenced_by) != 0;
}

// Whether the host knows that a wait for a word of this writer cannot succeed. The host has let much more time
// pass than a word that the rank itself has written needs to arrive.
__device__ __forceinline__ bool host_aborts(const WaitContext& w, u64 writer) {
  return load_acquire_system(w.host_abort) != 0 ||
         (writer != NO_WRITER && load_acquire_system(w.host_abort + 1 + writer) != 0);
}

// The slow path of a wait, outside the polling loop. Returns true when the wait must abort. `writer`: the rank
// that writes the word, or NO_WRITER; `peer`: the rank that a failure names.
__device__ __noinline__ bool should_abort(const WaitContext& w, u32 polls, u64 phase, u64 peer, u64 writer,
                                  u64 expected, u64 seen) {
  if (aborted(w)) {
    return true;
  }
  // A read of host memory crosses PCIe: only one poll in 65536 makes it.
  if (nanoseconds() > w.deadline || is_fenced(w) ||
      ((polls & 0xffff) == 0 && host_aborts(w, writer))) {
    fail_wait(w, phase, peer, expected, seen);
    return true;
  }
  return false;
}

// The time of a wait, if this thread is the witness of waits for its rank (observation.cuh).
struct WaitTime {
  bool witness;
  u64 since = 0;

  // After a poll in vain.
  __device__ __forceinline__ void begin(u32 polls) {
    if (witness && polls == 1) {
      since = nanoseconds();
    }
  }

  // After the poll that found the word.
  __device__ __forceinline__ void end(const WaitContext& w, u32 polls, u64 peer) const {
    if (witness && polls > 1) {
      charge_wait(w.control, peer, since);
    }
  }
};

// Waits until a monotonic word has reached the epoch.
__device__ __forceinline__ bool wait_epoch(const WaitContext& w, const u64* at, u64 phase, u64 peer,
                                           bool witness) {
  WaitTime time{witness};
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_system(at);
    if (seen >= w.epoch) {
      time.end(w, polls, peer);
      return true;
    }
    time.begin(polls);
    if ((polls & 0xff) == 0 && should_abort(w, polls, phase, peer, peer, w.epoch, seen)) {
      return false;
    }
  }
}

// Waits until `blocks` blocks have incremented `senders`.
__device__ __forceinline__ bool wait_senders(const WaitContext& w, u64 blocks) {
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_gpu(&w.control->senders);
    if (seen >= blocks) {
      return true;
    }
    if ((polls & 0xff) == 0 && should_abort(w, polls, PHASE_BLOCKS, 0, NO_WRITER, blocks, seen)) {
      return false;
    }
  }
}

// Numbers that warps of all blocks draw from one counter. Each warp requests the next number in
// advance, so that it does not wait for the atomic.
struct WorkCounter {
  u64* counter;
  u64 asked;  // valid in lane 0

  __device__ __forceinline__ explicit WorkCounter(u64* counter) : counter(counter), asked(ask()) {}

  // All lanes.
  __device__ __forceinline__ u32 next() {
    u32 number = __shfl_sync(0xffffffff, (u32)asked, 0);
    asked = ask();
    return number;
  }

 private:
  __device__ __forceinline__ u64 ask() const {
    return is_first_lane() ? atomicAdd(counter, 1ull) : 0;
  }
};

// A counter value with its epoch.
__device__ __forceinline__ u64 tagged(u64 epoch, u32 value) { return epoch << 32 | value; }

__device__ __forceinline__ bool tag_is(u64 word, u64 epoch) { return word >> 32 == (epoch & 0xffffffff); }

// Waits for a counter of this epoch; 0 on abort.
__device__ __forceinline__ u32 wait_tagged(const WaitContext& w, const u64* at, u64 phase, u64 peer, u64 writer,
                                           bool witness) {
  WaitTime time{witness};
  for (u32 polls = 1;; polls++) {
    u64 seen = load_relaxed_system(at);
    if (tag_is(seen, w.epoch)) {
      time.end(w, polls, peer);
      return (u32)seen;
    }
    time.begin(polls);
    if ((polls & 0xff) == 0 &&
        should_abort(w, polls, phase, peer, writer, w.epoch & 0xffffffff, seen >> 32)) {
      return 0;
    }
  }
}

// Waits for a word of this epoch that its writer raised after other memory (acquire); `value` is
// its low half.
__device__ __forceinline__ bool wait_arrival(const WaitContext& w, const u64* at, u64 peer, u64 writer,
                                             u32& value, bool witness) {
  WaitTime time{witness};
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_system(at);
    if (tag_is(seen, w.epoch)) {
      value = (u32)seen;
      time.end(w, polls, peer);
      return true;
    }
    time.begin(polls);
    if ((polls & 0xff) == 0 &&
        should_abort(w, polls, PHASE_ROWS, peer, writer, w.epoch & 0xffffffff, seen >> 32)) {
      return false;
    }
  }
}

// Sum of `n` counters of this GPU's blocks, `stride` words apart. Issues several loads at once:
// sequential latencies would add up to more than the rest of the layout takes.
__device__ __forceinline__ u32 sum_tagged(const WaitContext& w, const u64* first, u32 n, u64 stride) {
  constexpr u32 UNROLL = 8;
  u32 sum = 0;
  for (u32 i = 0; i < n; i += UNROLL) {
    u64 seen[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      seen[j] = i + j < n ? load_relaxed_system(first + (i + j) * stride) : 0;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      if (i + j < n) {
        sum += tag_is(seen[j], w.epoch)
                   ? (u32)seen[j]
                   : wait_tagged(w, first + (i + j) * stride, PHASE_BLOCKS, 0, NO_WRITER, false);
      }
    }
  }
  return sum;
}
