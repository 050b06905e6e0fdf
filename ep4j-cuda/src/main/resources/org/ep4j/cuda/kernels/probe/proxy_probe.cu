// Throughput and latency of the command rings, for `ep4j bench proxy` and for tests.
//
// Roles: ep4j_proxy_push: every warp pushes; ep4j_proxy_rounds: one warp. Budget: 1024 threads at
// most, so at most 64 registers a thread; no shared memory. Invariant: a ring that refuses a push
// ends the warp, so no warp waits past its deadline.
#include "transport/command_ring.cuh"

// Every warp pushes `count` commands, `together` lanes at a time, into ring warp % rings. Command i
// of warp w is a put of 16 bytes from unit i to unit w of one of the destinations 1 to `peers`,
// without a counter. The first refusal ends a warp; `refused` counts refusals.
extern "C" __global__ void __launch_bounds__(1024)
    ep4j_proxy_push(const __grid_constant__ CommandRings rings, u64 count, u64 together, u64 peers,
                    u64 timeout, u64* refused) {
  u64 warp = (u64)blockIdx.x * (blockDim.x >> 5) + warp_id();
  u32 ring = (u32)(warp % rings.rings);
  u64 deadline = nanoseconds() + timeout;
  for (u64 i = 0; i < count; i += together) {
    u64 mine = i + lane_id();
    bool has = lane_id() < together && mine < count;
    u32 peer = 1 + (u32)((warp + mine) % peers);
    Command command =
        put_command(peer, 0, mine * COMMAND_UNIT, warp * COMMAND_UNIT, COMMAND_UNIT, NO_COUNTER);
    if (!push(rings, ring, has, command, deadline)) {
      if (is_first_lane()) {
        atomicAdd(refused, 1ull);
      }
      return;
    }
  }
}

// Waits until the host's clock has moved and returns it. Between `before` and `after` (GPU clock)
// the host's clock had the returned value or the next one.
__device__ __forceinline__ u64 sample_clock(const u64* clock, u64 deadline, u64& before, u64& after) {
  u64 first = load_relaxed_system(clock);
  u64 now = first;
  do {
    before = nanoseconds();
    now = load_relaxed_system(clock);
    after = before;
  } while (now == first && before < deadline);
  // Behind a branch on the loaded word: the GPU clock is not read before the word has arrived.
  if (now != first) {
    after = nanoseconds();
  }
  return now;
}

// One warp pushes one command after the other into ring 0; the host answers each with its number.
// Times of a round: host clock; GPU clock before and after that read; GPU clock before the push,
// before the command is written, and when the answer has arrived.
extern "C" __global__ void ep4j_proxy_rounds(const __grid_constant__ CommandRings rings, u64 rounds,
                                             const u64* clock, const u64* answer, u64* times,
                                             u64 pause, u64 timeout) {
  u64 deadline = nanoseconds() + timeout;
  for (u64 i = 0; i < rounds; i++) {
    u64* at = times + i * 6;
    bool first = is_first_lane();
    if (first) {
      u64 before;
      u64 after;
      at[0] = sample_clock(clock, deadline, before, after);
      at[1] = before;
      at[2] = after;
    }
    __syncwarp();
    u64 start = nanoseconds();
    while (nanoseconds() < start + pause) {
    }
    Command command = put_command(1, 0, i * COMMAND_UNIT, 0, COMMAND_UNIT, NO_COUNTER);
    u64 pushed = nanoseconds();
    u64 ticket = claim(rings, 0, 1, deadline);
    if (ticket == NO_TICKET) {
      return;
    }
    u64 written = nanoseconds();
    publish(rings, 0, first, ticket, command);
    if (first) {
      at[3] = pushed;
      at[4] = written;
      while (load_acquire_system(answer) < i + 1 && nanoseconds() < deadline) {
      }
      at[5] = nanoseconds();
    }
    __syncwarp();
  }
}
