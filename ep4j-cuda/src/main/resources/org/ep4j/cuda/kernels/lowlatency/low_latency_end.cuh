// End of a low-latency operation, and the check at kernel start.
#pragma once
#include "lowlatency/low_latency_begin.cuh"

// Orders the accesses of this block before those of the last block; one thread: its fence covers
// the accesses of other threads before a barrier. Without ticket, masks and statistics nothing
// needs order: the last block then only reports that every block has read its rows, and a block
// that arrives has used the values it read. A ticket reports to the host that results are complete.
// With masks the end of a kernel that sends also notifies other GPUs.
__device__ __forceinline__ void order_blocks(const LowLatencyParameters& p) {
  if (p.masking && (p.phases & SENDING)) {
    __threadfence_system();
  } else if (p.masking || p.waits != nullptr || p.receipt.ticket != 0) {
    __threadfence();
  }
}

// Counts this block as finished; true in the last block. One thread, once the whole block has
// finished.
__device__ __forceinline__ bool arrive_last(const Operation& op) {
  order_blocks(op.p);
  bool last = atomicAdd(&op.p.control->arrived, 1ull) == gridDim.x - 1;
  order_blocks(op.p);
  return last;
}

// The same for all threads.
__device__ __forceinline__ bool is_last_block(const Operation& op) {
  __shared__ bool last;
  __syncthreads();
  if (is_first_thread()) {
    last = arrive_last(op);
  }
  __syncthreads();
  return last;
}

// Whether the receipt must be repeated; clears the request. All threads of the last block.
__device__ __forceinline__ bool receive_again(const Operation& op) {
  u64* again = &op.state()->again;
  bool requested = load_relaxed_system(again) == op.number;
  __syncthreads();
  if (is_first_thread() && requested) {
    store_relaxed_system(again, 0);
  }
  return __syncthreads_or(requested && !aborted(op.wait));
}

// A masked rank that may still write into the area of `operation`, or `ranks` if there is none.
__device__ __noinline__ u64 late_writer(const Operation& op, u64 operation) {
  const LowLatencyParameters& p = op.p;
  for (u64 r = 0; r < p.ranks; r++) {
    const char* part = p.peers[r];
    if (part != nullptr && !op.is_internode((u32)r) && load_relaxed_system(&p.masks[r]) != 0 &&
        operation <= p.acknowledged[r] + 2 && load_acquire_system(&p.host_gone[r]) == 0 &&
        load_acquire_system(&((const LowLatencyState*)part)->sent) < operation) {
      return r;
    }
  }
  return p.ranks;
}

// An area for operation `number` + 2 that no rank writes into: the area of this operation, or one
// that has been unused since a rank was masked. If there is none the operation fails. One thread.
__device__ __noinline__ u64 clean_area(const Operation& op, Grant last_grant) {
  const LowLatencyParameters& p = op.p;
  LowLatencyState* state = op.state();
  u64 here = last_grant.area(op.number);
  state->used[here] = op.number;
  WaitContext wait = op.wait;
  wait.deadline = nanoseconds() + p.timeout;
  for (u32 polls = 1;; polls++) {
    u64 late = p.ranks;
    for (u64 i = 0; i < MAX_AREAS; i++) {
      u64 area = here ^ i;
      if (area != last_grant.area(op.number + 1)) {
        late = late_writer(op, state->used[area]);
        if (late == p.ranks) {
          return area;
        }
      }
    }
    // No writer: once the host knows that `late` is gone, the next round finds an area.
    if (should_abort(wait, polls, PHASE_ENTER, late, NO_WRITER, op.number,
                     ((const LowLatencyState*)p.peers[late])->sent)) {
      return here;
    }
  }
}

// Acknowledges the operation to all live ranks. The first warp of the last block. A failed
// operation is acknowledged, too: its results are invalid, and its ranks run no more operations
// until they are reset.
__device__ __forceinline__ void publish_received(const Operation& op, char* const* parts) {
  const LowLatencyParameters& p = op.p;
  u64 after = op.last_grant.area(op.number);
  if (p.masking) {
    if (p.control->failed == 0) {
      after = __shfl_sync(0xffffffff, is_first_lane() ? clean_area(op, op.last_grant) : 0, 0);
    }
    if (aborted(op.wait)) {
      return;
    }
  }
  Grant grant = Grant::of(op.number, op.last_grant.area(op.number + 1), after);
  for (u32 r = lane_id(); r < p.ranks; r += 32) {
    if (parts[r] != nullptr && !(PUTS && op.is_internode(r)) && (!p.masking || load_relaxed_system(&p.masks[r]) == 0)) {
      // All reads have completed: no order is needed.
      store_relaxed_system(op.received(parts[r], (u32)p.rank), grant.word);
      p.acknowledged[r] = op.number;
    }
  }
  if constexpr (PUTS) {
    for (u32 first = 0; first < p.ranks; first += 32) {
      u32 r = first + lane_id();
      bool mine = r < p.ranks && op.is_internode(r) && parts[r] != nullptr &&
                  (!p.masking || load_relaxed_system(&p.masks[r]) == 0);
      push_puts(op, mine, make_add(op, r, COUNTER_GRANTED, 1), r);
    }
  }
}

// Ends the operation: the first warp of the last block. `ticket` and `operations` are those in the
// control words.
__device__ __forceinline__ void end_operation(const Operation& op, char* const* parts, u64 ticket, u64 operations) {
  const LowLatencyParameters& p = op.p;
  if (p.phases & RECEIVING) {
    publish_received(op, parts);
    count_operation(p.control, operations);
    for (u32 r = lane_id(); p.waits != nullptr && r < p.ranks; r += 32) {
      p.waits[r] += __ldcg(&p.waited[r]);
      p.waited[r] = 0;
    }
  }
  if (!is_first_lane()) {
    return;
  }
  LowLatencyState* state = op.state();
  if (p.phases & SENDING) {
    if (p.masking) {
      store_release_system(&state->sent, op.number);
    } else {
      state->sent = op.number;
    }
  }
  if (p.phases & RECEIVING) {
    state->received = op.number;
  }
  p.control->arrived = 0;
  store_relaxed_system(&p.control->running, 0);
  // A graph replays an old ticket: the word must not decrease.
  if (p.receipt.ticket > ticket) {
    p.control->ticket = p.receipt.ticket;
    store_release_system(p.receipt.completed, p.receipt.ticket);
  }
}

// All threads of a finished block, in a kernel whose last block has no extra work.
__device__ __forceinline__ void finish(const Operation& op, char* const* parts) {
  // A block counts as soon as one of its threads admits the next kernel, whose blocks may then take
  // the SM that a rank on the same GPU needs; so no warp of this block may still wait for that
  // rank.
  __syncthreads();
  launch_dependent_kernels();
  if (warp_id() == 0) {
    // Loaded together with the arrival: only the last block of a kernel writes it.
    u64 ticket = op.p.control->ticket;
    u64 operations = op.p.control->operations;
    bool last = is_first_lane() && arrive_last(op);
    if (__any_sync(0xffffffff, last)) {
      end_operation(op, parts, ticket, operations);
    }
  }
}

// Reads the state of all ranks. False if an earlier operation has failed or this rank is fenced:
// then the kernel has already ended. All threads.
__device__ __forceinline__ bool begin(const Operation& op, char** areas, char** parts) {
  u64 why = exit_reason(op.p.control);
  resolve_peers(op, why, areas, parts);
  if (!__syncthreads_or(why != 0)) {
    return true;
  }
  report_fenced(op.wait);
  // A fenced rank acknowledges nothing.
  for (u32 r = threadIdx.x; r < op.p.ranks && is_fenced(op.wait); r += blockDim.x) {
    parts[r] = nullptr;
  }
  finish(op, parts);
  return false;
}
