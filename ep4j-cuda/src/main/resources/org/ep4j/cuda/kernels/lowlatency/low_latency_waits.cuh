// Waits of low-latency operations, and masks.
#pragma once
#include "lowlatency/low_latency.cuh"

__device__ __noinline__ void record_wait(const Operation& op, u32 peer, u64 since) {
  atomicMax(&op.p.waited[peer], nanoseconds() - since);
}

// Masks `peer`: all warps skip it from now on, and the receipt of this operation is repeated.
__device__ __noinline__ void mask_rank(const Operation& op, u32 peer) {
  const LowLatencyParameters& p = op.p;
  if (p.waits != nullptr) {
    // From the start of the kernel: a wait that ends here ends no loop that knows its own start.
    record_wait(op, peer, op.wait.deadline - p.timeout);
  }
  store_relaxed_system(&op.state()->again, op.number);
  if (atomicExch(&p.masks[peer], 1ull) == 0) {
    store_release_system(&p.host_masks[peer], 1);
  }
  __threadfence();
}

// Bit of a phase, internode: the wait is for a word in this rank's own part. A warp of this GPU brings it
// there from where an internode rank has written it; MAPPED, the group words of all ranks.
constexpr u64 IN_OWN_PART = INTERNODE ? 1 << 8 : 0;

// With masks the warp that brings a word alone decides whether its writer is late: while that warp waited
// for another rank, the word may have arrived.
__device__ __forceinline__ bool is_relayed(const Operation& op, u64 phase, u32 writer) {
  return INTERNODE && op.p.masking && (phase & IN_OWN_PART) != 0 &&
         (op.is_internode(writer) || (MAPPED && phase == (PHASE_ROWS | IN_OWN_PART)));
}

// The slow path of a wait. Returns true when the wait must abort.
__device__ __noinline__ bool should_abort_or_mask(const Operation& op, u32 polls, u64 phase, u32 peer,
                                      u64 expected, u64 seen) {
  const LowLatencyParameters& p = op.p;
  const WaitContext& w = op.wait;
  bool relayed = is_relayed(op, phase, peer);
  if constexpr (INTERNODE) {
    phase &= ~IN_OWN_PART;
  }
  if (is_fenced(w)) {
    fail_wait(w, phase, peer, expected, seen);
    return true;
  }
  if (aborted(w) || load_relaxed_system(&p.masks[peer]) != 0) {
    return true;
  }
  // A read of host memory crosses PCIe: only one poll in 65536 makes it.
  bool ask = (polls & 0xffff) == 0;
  if (ask && load_acquire_system(w.host_abort) != 0) {
    fail_wait(w, phase, peer, expected, seen);
    return true;
  }
  if (relayed) {
    // Never reached while the relay works: it has masked the rank long before.
    bool late = ask && nanoseconds() > w.deadline + p.timeout;
    if (late) {
      fail_wait(w, phase, peer, expected, seen);
    }
    return late;
  }
  if (nanoseconds() <= w.deadline && !(ask && load_acquire_system(&p.host_gone[peer]) != 0)) {
    return false;
  }
  if (p.masking && peer != p.rank) {
    mask_rank(op, peer);
  } else {
    fail_wait(w, phase, peer, expected, seen);
  }
  return true;
}

// How a word is read and compared.
enum WordKind { WORD_TAGGED, WORD_FLAG, WORD_GRANT, WORD_INTERNODE_GRANT };

// Flags may carry a value in their highest bit.
constexpr u64 FLAG_BIT = 1ull << 63;

template <WordKind KIND>
__device__ __forceinline__ u64 poll_word(const u64* at) {
  return KIND == WORD_TAGGED || KIND == WORD_INTERNODE_GRANT ? load_relaxed_system(at)
                                                         : load_acquire_system(at);
}

// Whether a word satisfies the wait.
template <WordKind KIND>
__device__ __forceinline__ bool has_arrived(u64 word, u64 number) {
  return KIND == WORD_TAGGED ? tag_is(word, number)
         : KIND == WORD_FLAG   ? (word & ~FLAG_BIT) == number
                               : Grant{word}.number() >= number;
}

// Waits for a word, `seen` at a first poll; false on abort. The loop is inlined: kernels this short
// also wait for instructions, and those of a separate function arrive late. `witness`: see
// observation.cuh.
template <WordKind KIND>
__device__ __forceinline__ bool await(const Operation& op, const u64* at, u64 phase, u32 peer,
                                      u64 number, u64& seen, bool witness = false) {
  if (has_arrived<KIND>(seen, number)) {
    return true;
  }
  u64 since = op.p.waits == nullptr && !witness ? 0 : nanoseconds();
#pragma unroll 1
  for (u32 polls = 1;; polls++) {
    seen = poll_word<KIND>(at);
    if (has_arrived<KIND>(seen, number)) {
      break;
    }
    if ((polls & 0xff) == 0 && should_abort_or_mask(op, polls, phase, peer, number, seen)) {
      return false;
    }
  }
  if (op.p.waits != nullptr) {
    record_wait(op, peer, since);
  }
  if (witness) {
    charge_wait(op.p.control, peer, since);
  }
  return true;
}

// A word of this operation with a value.
__device__ __forceinline__ u64 tagged_word(const Operation& op, u32 value) {
  return tagged(op.number, value);
}

// Waits for the value of a word of this operation. `seen`: the word as first read; 0: not read.
__device__ __forceinline__ bool await_value(const Operation& op, const u64* at, u32 peer, u64 phase,
                                            u32& value, u64 seen, bool witness = false) {
  bool there = await<WORD_TAGGED>(op, at, phase, peer, op.number & 0xffffffff, seen, witness);
  value = (u32)seen;
  return there;
}

__device__ __forceinline__ bool await_flag(const Operation& op, const u64* at, u32 peer, u64& flag,
                                           bool witness) {
  return await<WORD_FLAG>(op, at, PHASE_ROWS, peer, op.number, flag, witness);
}
