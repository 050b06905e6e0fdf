// Waiting in low-latency operations, masks, and the end of an operation.
#pragma once
#include "low_latency.cuh"

// From now on nobody counts with `peer`, and what has been received so far is received again.
__device__ __noinline__ void mask_rank(const Operation& op, u32 peer) {
  const LowLatencyParameters& p = op.p;
  store_relaxed_system(&op.words()->again, op.number);
  if (atomicExch(&p.masks[peer], 1ull) == 0) {
    store_release_system(&p.host_masks[peer], 1);
  }
  __threadfence();
}

// The rare part of a wait. Returns true when waiting has become vain.
__device__ __noinline__ bool vain_for(const Operation& op, u32 polls, u64 phase, u32 peer,
                                      u64 expected, u64 seen) {
  const LowLatencyParameters& p = op.p;
  const Watch& w = op.watch;
  if (aborted(w) || load_relaxed_system(&p.masks[peer]) != 0) {
    return true;
  }
  // Host memory is far away: ask it now and then only.
  bool ask = (polls & 0xffff) == 0;
  if (ask && load_acquire_system(w.host_abort) != 0) {
    give_up(w, phase, peer, expected, seen);
    return true;
  }
  if (nanoseconds() <= w.deadline && !(ask && load_acquire_system(&p.host_gone[peer]) != 0)) {
    return false;
  }
  if (p.masking && peer != p.rank) {
    mask_rank(op, peer);
  } else {
    give_up(w, phase, peer, expected, seen);
  }
  return true;
}

__device__ __noinline__ void note_wait(const Operation& op, u32 peer, u64 since) {
  atomicMax(&op.p.waited[peer], nanoseconds() - since);
}

// Polls a word until `reached(word)`; false when that is vain.
template <class Load, class Reached>
__device__ __forceinline__ bool poll(const Operation& op, Load load, Reached reached, u64 phase,
                                     u32 peer, u64 expected, u64& seen) {
  seen = load();
  if (reached(seen)) {
    return true;
  }
  u64 since = op.p.waits == nullptr ? 0 : nanoseconds();
  for (u32 polls = 1;; polls++) {
    seen = load();
    if (reached(seen)) {
      break;
    }
    if ((polls & 0xff) == 0 && vain_for(op, polls, phase, peer, expected, seen)) {
      return false;
    }
  }
  if (op.p.waits != nullptr) {
    note_wait(op, peer, since);
  }
  return true;
}

// Waits until `peer` has received the operation before last, so that there is an area for this one.
__device__ __forceinline__ bool await_space(const Operation& op, u32 peer, Grant& grant) {
  u64 expected = op.number - 2;
  const u64* at = op.received(op.p.own, peer);
  return poll(
      op, [&] { return load_acquire_system(at); },
      [&](u64 word) { return Grant{word}.number() >= expected; }, PHASE_ENTER, peer, expected,
      grant.word);
}

// The area of a rank if it counts and, should the kernel send, has space; else null. All loads are on
// their way before one is looked at.
__device__ __forceinline__ char* counted_area(const Operation& op, u32 r, u64 failed) {
  const LowLatencyParameters& p = op.p;
  char* part = p.peers[r];
  u64 masked = load_relaxed_system(&p.masks[r]);
  Grant grant{load_acquire_system(op.received(p.own, r))};
  if (part == nullptr || masked != 0 || failed != 0) {
    return nullptr;
  }
  bool space = !(p.phases & SENDING) || grant.number() + 2 >= op.number;
  return space || await_space(op, r, grant) ? part + grant.area(op.number) * p.area_bytes : nullptr;
}

// Looks at all ranks: areas[r] in shared memory. All threads.
__device__ __forceinline__ void look_around(const Operation& op, char** areas) {
  __syncthreads();
  for (u32 r = threadIdx.x; r < op.p.ranks; r += blockDim.x) {
    areas[r] = counted_area(op, r, 0);
  }
  __syncthreads();
}

// What this rank has told, itself like the others.
__device__ __forceinline__ Grant own_grant(const LowLatencyParameters& p) {
  return Grant{load_relaxed_system((u64*)(p.own + p.received_offset) + p.rank)};
}

// The operation that this kernel sends or receives. Kernels of a buffer run one after the other, so
// nothing that is read here changes meanwhile, but for what peers have received.
__device__ __forceinline__ Operation operation_of(const LowLatencyParameters& p) {
  const Words* words = (const Words*)p.own;
  u64 number = load_relaxed_system(p.phases & SENDING ? &words->sent : &words->received) + 1;
  Watch watch{p.control, p.record, p.host_abort, LOW_LATENCY | number, nanoseconds() + p.timeout};
  return Operation{p, watch, number, p.own + own_grant(p).area(number) * p.area_bytes};
}

// A word of this operation that carries a value.
__device__ __forceinline__ u64 numbered(const Operation& op, u32 value) {
  return tagged(op.number, value);
}

__device__ __forceinline__ bool await_value(const Operation& op, const u64* at, u32 peer, u64 phase,
                                            u32& value) {
  u64 seen;
  bool there = poll(
      op, [&] { return load_relaxed_system(at); }, [&](u64 word) { return tag_is(word, op.number); },
      phase, peer, op.number & 0xffffffff, seen);
  value = (u32)seen;
  return there;
}

// Flags may carry something in their highest bit.
constexpr u64 FLAG_BIT = 1ull << 63;

__device__ __forceinline__ bool await_flag(const Operation& op, const u64* at, u32 peer, u64& flag) {
  return poll(
      op, [&] { return load_acquire_system(at); },
      [&](u64 word) { return (word & ~FLAG_BIT) == op.number; }, PHASE_ROWS, peer, op.number, flag);
}

// Counts this block as finished; true in the last one. One thread, once all of the block are done:
// its fence is enough for what they wrote or read before a barrier. With masks the end of a kernel
// that sends tells other GPUs something, too.
__device__ __forceinline__ bool arrive_last(const Operation& op) {
  bool told = op.p.masking && (op.p.phases & SENDING);
  told ? __threadfence_system() : __threadfence();
  bool last = atomicAdd(&op.p.control->arrived, 1ull) == gridDim.x - 1;
  told ? __threadfence_system() : __threadfence();
  return last;
}

// The same for all threads.
__device__ __forceinline__ bool is_last_block(const Operation& op) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    last = arrive_last(op);
  }
  __syncthreads();
  return last;
}

// Whether the receipt must be repeated; clears the wish. All threads of the last block.
__device__ __forceinline__ bool receive_again(const Operation& op) {
  u64* again = &op.words()->again;
  bool wished = load_relaxed_system(again) == op.number;
  __syncthreads();
  if (threadIdx.x == 0 && wished) {
    store_relaxed_system(again, 0);
  }
  return __syncthreads_or(wished && !aborted(op.watch));
}

// A masked rank that may still write what belongs to `operation`, or `ranks` if there is none.
__device__ __noinline__ u64 late_writer(const Operation& op, u64 operation) {
  const LowLatencyParameters& p = op.p;
  for (u64 r = 0; r < p.ranks; r++) {
    const char* part = p.peers[r];
    if (part != nullptr && load_relaxed_system(&p.masks[r]) != 0 && operation <= p.told[r] + 2 &&
        load_acquire_system(&p.host_gone[r]) == 0 &&
        load_acquire_system(&((const Words*)part)->sent) < operation) {
      return r;
    }
  }
  return p.ranks;
}

// An area for the operation after next in which nobody writes: where this one was received, or one
// that has been left alone since a rank was masked. If there is none the operation fails. One thread.
__device__ __noinline__ u64 clean_area(const Operation& op, Grant told) {
  const LowLatencyParameters& p = op.p;
  Words* words = op.words();
  u64 here = told.area(op.number);
  words->used[here] = op.number;
  Watch watch = op.watch;
  watch.deadline = nanoseconds() + p.timeout;
  for (u32 polls = 1;; polls++) {
    u64 late = p.ranks;
    for (u64 i = 0; i < MOST_AREAS; i++) {
      u64 area = here ^ i;
      if (area != told.area(op.number + 1)) {
        late = late_writer(op, words->used[area]);
        if (late == p.ranks) {
          return area;
        }
      }
    }
    if (vain(watch, polls, PHASE_ENTER, late, op.number, ((const Words*)p.peers[late])->sent)) {
      return here;
    }
  }
}

// Tells all ranks that count that the operation has been received. The first warp of the last block.
__device__ __forceinline__ void tell_received(const Operation& op) {
  const LowLatencyParameters& p = op.p;
  Grant told = own_grant(p);
  u64 after = told.area(op.number);
  if (p.masking && p.control->failed == 0) {
    after = __shfl_sync(0xffffffff, lane_id() == 0 ? clean_area(op, told) : 0, 0);
  }
  if (aborted(op.watch)) {
    return;
  }
  Grant grant = Grant::of(op.number, told.area(op.number + 1), after);
  for (u32 r = lane_id(); r < p.ranks; r += 32) {
    char* part = p.peers[r];
    if (part != nullptr && load_relaxed_system(&p.masks[r]) == 0) {
      // All that was to be read has been read: no order is left to be kept.
      store_relaxed_system(op.received(part, (u32)p.rank), grant.word);
      p.told[r] = op.number;
    }
  }
}

// Ends the operation: the first warp of the last block.
__device__ __forceinline__ void end_operation(const Operation& op) {
  const LowLatencyParameters& p = op.p;
  if (p.phases & RECEIVING) {
    tell_received(op);
    for (u32 r = lane_id(); p.waits != nullptr && r < p.ranks; r += 32) {
      p.waits[r] += p.waited[r];
      p.waited[r] = 0;
    }
  }
  if (lane_id() != 0) {
    return;
  }
  Words* words = op.words();
  if (p.phases & SENDING) {
    if (p.masking) {
      store_release_system(&words->sent, op.number);
    } else {
      words->sent = op.number;
    }
  }
  if (p.phases & RECEIVING) {
    words->received = op.number;
  }
  p.control->arrived = 0;
  // A graph replays an old ticket: the word must not go back.
  if (p.receipt.ticket > p.control->ticket) {
    p.control->ticket = p.receipt.ticket;
    store_release_system(p.receipt.completed, p.receipt.ticket);
  }
}

// All threads of a block that is done, in a kernel whose last block has nothing else to do.
__device__ __forceinline__ void finish(const Operation& op) {
  __syncthreads();
  if (warp_id() == 0) {
    bool last = lane_id() == 0 && arrive_last(op);
    if (__any_sync(0xffffffff, last)) {
      end_operation(op);
    }
  }
}

// Looks around. False if an earlier operation has failed: then the kernel has ended already. All
// threads.
__device__ __forceinline__ bool begin(const Operation& op, char** areas) {
  u64 failed = load_relaxed_system(&op.p.control->failed);
  for (u32 r = threadIdx.x; r < op.p.ranks; r += blockDim.x) {
    areas[r] = counted_area(op, r, failed);
  }
  if (!__syncthreads_or(failed != 0)) {
    return true;
  }
  finish(op);
  return false;
}
