// Words that ranks and blocks share, and how to wait for them.
//
// Every operation on a buffer has an epoch: the value of `epoch` in the control words when its
// kernel starts, plus one. All ranks run the same operations in the same order, so they agree.
// Kernels of a buffer run one after the other (the host sees to it), so a kernel is alone with the
// control words of its rank.
//
// Words in the region of rank d, written by rank s over NVLink, waited for by d:
//   ready[s]   epoch: s has entered the operation, everything before it on s has ended
//   done[s]    epoch: all that s sends to d in this operation has been written
//   counts[s]  one word a counter: low half of the epoch above, value below. A word carries both,
//              so it needs no flag; being there it also says ready. Order: rows to each rank,
//              rows to each expert, row limit of s, alignment of its groups, its tokens.
//   groups[s]  epoch of the combine for which the four rows of a group have been written
//   arrivals   one word a slot of an EXPERT_MAJOR dispatch: low half of the epoch above, the token
//              below, once its row and its companion have been written; relaxed behind a fence
// `ready`, `done` and `groups` are written with system-wide release; they and `arrivals` are read with
// acquire. Counts need no order, because a word says all. They only grow; nothing is reset between operations. A rank
// cannot overtake: it leaves a dispatch only after every peer's `done`, which the peer sends after all
// its blocks have read the counts.
//
// A rank that is gone since the last reset has no region: its entry among the peers is null, nothing
// is written to it or waited for from it, and its experts belong to no rank.
//
// A wait that misses its deadline writes what it waited for into the record, raises `abort` so that
// the other blocks leave too, and the kernel ends without having done its work. It never traps. Whom the
// record of a high-throughput operation names is settled by the last block (timeout_attribution.cuh).
//
// A rank that others lose may only have been stopped, and go on launching kernels. Its words of the
// operation in which it was lost are all there, so such a kernel would wait for nobody. Who goes on
// without it therefore writes `fenced_by` there first, and then waits until `running` is 0
// (org.ep4j.cuda.engine.StaleRankFence): a kernel says that it runs before it looks whether its rank is
// evicted. Both are relaxed; the host leaves far more time between its two accesses than a store takes.
// Whoever finds its rank evicted, at the start or while it waits, writes nothing to others from then on
// but what the operation that it is in would have written. To be evicted is for good.
#pragma once
#include "ptx.cuh"

// At the start of each rank's region; 8 bytes a field, as in org.ep4j.cuda.engine.ControlField. Only
// kernels of this GPU write them while one runs, but for `fenced_by`; the host clears those up to the ticket
// when none does, and reads those of the traffic then. Nobody waits for them, but for `running`.
struct Control {
  u64 epoch;          // of the last operation that ended: last block, release; acquire at the start
  u64 arrived;        // blocks of the running kernel that have finished: atomic, cleared by the last
  u64 abort;          // epoch of the operation that gave up: any thread, release; polled with acquire
  u64 claimed;        // epoch whose bad routing is in the record: atomic exchange
  u64 failed;         // 1 once a wait has failed: later kernels leave at once, until the host resets
  u64 ticket;         // highest ticket of an operation that ended: last block alone
  u64 rows_sent;      // FLAT rows of all dispatches, own ones included: last block alone
  u64 rows_received;  // the same
  u64 payload_bytes;  // rows and scales sent: the same
  // Atomic, cleared by the last block:
  u64 senders;  // FLAT: blocks whose tokens may be sent; EXPERT_MAJOR: that have read the counts and
                // sent; a combine: groups that pushing warps have taken
  u64 jobs;     // tokens that sending, rows that receiving, parts that summing warps have taken
  u64 running;  // 1 while a kernel may write into peers' memory: the first thread of each block, before it
                // looks at `fenced_by`; 0: the last block; relaxed. Read by hosts of peers
  u64 fenced_by;  // 0, or 1 + the number of a rank that has gone on without this one: hosts of such ranks;
                // polled relaxed; never cleared
  u64 unused[3];
};

// What a failed wait leaves for the host, in mapped host memory. `state` is written last, release; but of a
// timeout in a high-throughput operation `attributed_epoch` is: last block, release. The host reads both with acquire,
// and takes such a timeout for none before.
struct Record {
  u64 state;  // 0 nothing, else a State
  u64 epoch;
  u64 phase;
  u64 peer;
  u64 expected;
  u64 seen;
  u64 token;
  u64 choice;
  u64 left;  // ns of the time it had; negative past the deadline
  u64 attributed_epoch;  // epoch whose last block has looked who is missing
};

constexpr u32 NO_NODE = ~0u;  // in place of the node of a rank that is gone

enum Phase { PHASE_ENTER = 1, PHASE_COUNTS = 2, PHASE_ROWS = 3, PHASE_BLOCKS = 4, PHASE_ROOM = 5 };
enum State {
  STATE_TIMEOUT = 1,
  STATE_NO_SUCH_EXPERT = 2,
  STATE_DUPLICATE = 3,
  STATE_NOT_AS_DISPATCHED = 4,  // low latency: a combine names another expert; `expected` is set
  STATE_OTHER_KIND = 5          // low latency: `peer` dispatches rows of another kind
};

// How a kernel waits; each thread has its own.
struct WaitContext {
  Control* control;
  Record* record;
  const u64* host_abort;  // mapped host memory: not 0 once the host knows that waiting is vain
  u64 epoch;
  u64 deadline;           // of the GPU's nanosecond clock
};

__device__ __forceinline__ WaitContext make_wait_context(Control* control, Record* record, const u64* host_abort,
                                          u64 timeout) {
  return WaitContext{control, record, host_abort, load_acquire_gpu(&control->epoch) + 1,
               nanoseconds() + timeout};
}

__device__ __noinline__ void fail_wait(const WaitContext& w, u64 phase, u64 peer, u64 expected, u64 seen) {
  // The first failure is the one to tell; it overrides a bad routing.
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

// The first bad choice of an operation is told.
__device__ __noinline__ void bad_routing(const WaitContext& w, u64 state, u64 token, u64 choice, u64 id) {
  if (atomicExch(&w.control->claimed, w.epoch) != w.epoch) {
    w.record->epoch = w.epoch;
    w.record->token = token;
    w.record->choice = choice;
    w.record->seen = id;
    store_release_system(&w.record->state, state);
  }
}

__device__ __forceinline__ bool aborted(const WaitContext& w) {
  return load_acquire_gpu(&w.control->abort) == w.epoch;
}

__device__ __forceinline__ bool is_fenced(const WaitContext& w) {
  return load_relaxed_system(&w.control->fenced_by) != 0;
}

// The rare part of a wait. Returns true when waiting has become vain.
__device__ __noinline__ bool should_abort(const WaitContext& w, u32 polls, u64 phase, u64 peer, u64 expected,
                                  u64 seen) {
  if (aborted(w)) {
    return true;
  }
  // Host memory is far away: ask it now and then only.
  if (nanoseconds() > w.deadline || is_fenced(w) ||
      ((polls & 0xffff) == 0 && load_acquire_system(w.host_abort) != 0)) {
    fail_wait(w, phase, peer, expected, seen);
    return true;
  }
  return false;
}

// Waits until a word that only grows has reached the epoch.
__device__ __forceinline__ bool wait_epoch(const WaitContext& w, const u64* at, u64 phase, u64 peer) {
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_system(at);
    if (seen >= w.epoch) {
      return true;
    }
    if ((polls & 0xff) == 0 && should_abort(w, polls, phase, peer, w.epoch, seen)) {
      return false;
    }
  }
}

// Waits until so many blocks have counted themselves among the senders.
__device__ __forceinline__ bool wait_senders(const WaitContext& w, u64 blocks) {
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_gpu(&w.control->senders);
    if (seen >= blocks) {
      return true;
    }
    if ((polls & 0xff) == 0 && should_abort(w, polls, PHASE_BLOCKS, 0, blocks, seen)) {
      return false;
    }
  }
}

// Numbers that warps of all blocks take from one counter, each the next. One is always asked for in
// advance, so that the warp does not wait for it.
struct WorkCounter {
  u64* counter;
  u64 asked;  // lane 0

  __device__ __forceinline__ explicit WorkCounter(u64* counter) : counter(counter), asked(ask()) {}

  // All lanes.
  __device__ __forceinline__ u32 next() {
    u32 number = __shfl_sync(0xffffffff, (u32)asked, 0);
    asked = ask();
    return number;
  }

 private:
  __device__ __forceinline__ u64 ask() const {
    return (threadIdx.x & 31) == 0 ? atomicAdd(counter, 1ull) : 0;
  }
};

// A counter that carries its epoch.
__device__ __forceinline__ u64 tagged(u64 epoch, u32 value) { return epoch << 32 | value; }

__device__ __forceinline__ bool tag_is(u64 word, u64 epoch) { return word >> 32 == (epoch & 0xffffffff); }

// Waits for a counter of this epoch; 0 if that is vain.
__device__ __forceinline__ u32 wait_tagged(const WaitContext& w, const u64* at, u64 phase, u64 peer) {
  for (u32 polls = 1;; polls++) {
    u64 seen = load_relaxed_system(at);
    if (tag_is(seen, w.epoch)) {
      return (u32)seen;
    }
    if ((polls & 0xff) == 0 && should_abort(w, polls, phase, peer, w.epoch & 0xffffffff, seen >> 32)) {
      return 0;
    }
  }
}

// Waits for a word of this epoch that was raised after other memory had been written; its low half.
__device__ __forceinline__ bool wait_arrival(const WaitContext& w, const u64* at, u64 peer, u32& value) {
  for (u32 polls = 1;; polls++) {
    u64 seen = load_acquire_system(at);
    if (tag_is(seen, w.epoch)) {
      value = (u32)seen;
      return true;
    }
    if ((polls & 0xff) == 0 &&
        should_abort(w, polls, PHASE_ROWS, peer, w.epoch & 0xffffffff, seen >> 32)) {
      return false;
    }
  }
}

// Sum of `n` counters of this GPU's blocks, `stride` words apart. Loads several at once: one after
// the other their latencies would add up to more than the rest of a layout.
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
                   : wait_tagged(w, first + (i + j) * stride, PHASE_BLOCKS, 0);
      }
    }
  }
  return sum;
}
