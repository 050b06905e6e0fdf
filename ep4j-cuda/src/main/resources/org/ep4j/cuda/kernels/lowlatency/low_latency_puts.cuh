// Low-latency operations with ranks of other nodes whose memory kernels cannot write: words and
// rows for them are written to a shadow in this rank's own outgoing memory, and commands put them
// to their destination (internode.cuh, internode_transport.cuh). Puts overtake each other, so
// nothing is read before a counter shows that all of it has arrived. Each rank has five counters
// for every other rank. Writers: warps of the other rank submit commands that add to them; readers:
// acquire.
//
//   words    by parity of the number: +1 once the words of an operation have arrived, after them on the same
//            lane. Writer: the warp that puts the words. Waiter: the relay.
//   rows     by parity: +1 for each put of an operation's rows, and one add of ALL_ROWS less their number, so
//            it has grown by ALL_ROWS once all rows have arrived, in any order. Writers: the warps that put
//            rows, and the warp that puts the words. Waiter: the relay.
//   granted  operations that the other rank has received. Writer: the last block of its receiving kernel,
//            once all its blocks have read the rows. Waiter: the start of a sending kernel. There are two
//            areas, used alternately.
//
// Counters are monotonic except for a reset, which sets them to 0. `base` holds their values at
// operation 0; the host writes it before the first operation, and at a reset.
//
// The words of a source for another rank are contiguous in these parts, intranode or internode, so
// they are one put: header, counts, entries, and behind them weights.
//
// Shadows: for each internode rank two halves, by parity: the words of this rank as in a part, then
// rows. Rows of a dispatch are the same for all ranks and are in the first shadow, by token; with
// masks they are in the shadow of each rank. A half may be overwritten once the internode ranks
// that it has rows for have received operation `number` - 2: then its puts have completed. Puts to a masked
// rank may be pending for as long as it is masked, and nothing writes its shadow.
#pragma once
#include "internode/internode.cuh"
#include "lowlatency/low_latency_waits.cuh"
#include "structs/low_latency_puts.cuh"

constexpr u64 ALL_ROWS = 1ull << 32;

enum PutCounter { COUNTER_WORDS = 0, COUNTER_ROWS = 2, COUNTER_GRANTED = 4, COUNTERS_PER_RANK = 5 };

// Number of operations of the same parity up to this one.
__device__ __forceinline__ u64 parity_count(const Operation& op) { return (op.number + 1) / 2; }

// Whether a rank sends nothing more, and so the wait must abort; the slow path of a wait.
__device__ __noinline__ bool abort_if_lost(const Operation& op, u32 peer, u64 seen) {
  if (!is_peer_lost(op.p.puts->world->transport, peer)) {
    return false;
  }
  if (op.p.masking) {
    mask_rank(op, peer);
  } else {
    fail_wait(op.wait, PHASE_ROWS, peer, 0, seen);
  }
  return true;
}

// Whether a counter of `peer` has grown by `increment` since operation 0.
__device__ __forceinline__ bool counter_reached(const Operation& op, u32 peer, u32 which, u64 increment,
                                          u64& seen) {
  const LowLatencyPuts& puts = *op.p.puts;
  u32 at = peer * COUNTERS_PER_RANK + which;
  seen = count_acquire(puts.world->transport, puts.counters + at) - puts.base[at];
  return seen >= increment;
}

// Whether all words of an operation have arrived.
__device__ __forceinline__ bool words_arrived(const Operation& op, u32 peer, u64& seen) {
  return counter_reached(op, peer, COUNTER_WORDS + (u32)(op.number & 1), parity_count(op), seen);
}

// Whether all its rows have arrived.
__device__ __forceinline__ bool rows_arrived(const Operation& op, u32 peer, u64& seen) {
  return counter_reached(op, peer, COUNTER_ROWS + (u32)(op.number & 1), parity_count(op) * ALL_ROWS, seen);
}

// Waits until this operation has an area; one thread.
__device__ __forceinline__ bool await_grant(const Operation& op, u32 peer) {
  u64 seen = 0;
  WaitTime time{blockIdx.x == 0};
  u32 polls = 1;
  for (; op.number > 2 && !counter_reached(op, peer, COUNTER_GRANTED, op.number - 2, seen); polls++) {
    time.begin(polls);
    if (polls % 16 == 0 && (abort_if_lost(op, peer, seen) ||
                            should_abort_or_mask(op, polls << 8, PHASE_ENTER, peer, op.number - 2, seen))) {
      return false;
    }
  }
  time.end(op.wait, polls, peer);
  return true;
}

// --- shadows -----------------------------------------------------------------------------------

// Offset of the half of a shadow.
__device__ __forceinline__ u64 half_of(const Operation& op, u32 number) {
  return (number * 2 + (op.number & 1)) * op.p.puts->half_bytes;
}

// The `area` argument for functions of Operation that makes them address this rank's words in its
// shadow.
__device__ __forceinline__ char* staging_area(const Operation& op, u32 rank) {
  const LowLatencyParameters& p = op.p;
  return p.puts->staging + half_of(op, op.internode_index(rank)) - p.headers_offset -
         p.rank * p.source_bytes;
}

// The shadow that has the rows of a dispatch for `rank`.
__device__ __forceinline__ u32 dispatch_shadow(const Operation& op, u32 rank) {
  return op.p.masking ? op.internode_index(rank) : 0;
}

// Offset of a row in the shadow of the internode rank with this index.
__device__ __forceinline__ u64 staging_row(const Operation& op, u32 number, u64 slot) {
  return half_of(op, number) + op.p.puts->rows_offset + slot * 2 * op.p.hidden;
}

// Rows that this rank may return for a token.
__device__ __forceinline__ u32 rows_of_token(const LowLatencyParameters& p) {
  return min((u32)p.max_choices, (u32)p.local_experts);
}

// --- commands ----------------------------------------------------------------------------------

// The warp's number, which selects its ring and lane. Consecutive numbers lie in different blocks: a small
// batch uses only the first warps of each block, and these must not share a lane.
__device__ __forceinline__ u32 spread_warp() { return warp_id() * gridDim.x + blockIdx.x; }

__device__ __forceinline__ u32 put_counter(const Operation& op, u32 which) {
  return (u32)(op.p.puts->first_counter + op.p.rank * COUNTERS_PER_RANK + which);
}

// Puts bytes of a shadow to an offset of this operation's area of `rank`.
__device__ __forceinline__ Command make_put(const Operation& op, u32 rank, u64 source, u64 target,
                                        u64 bytes, u32 counter) {
  const LowLatencyPuts& puts = *op.p.puts;
  u32 lane = spread_warp() / (u32)puts.world->transport.rings.rings % (u32)puts.world->lanes;
  u64 area = puts.target + op.internode_area();
  return put_command(rank, lane, puts.staging_source + source, area + target, bytes, counter);
}

__device__ __forceinline__ Command make_add(const Operation& op, u32 rank, u32 which, u64 value) {
  const LowLatencyPuts& puts = *op.p.puts;
  u32 lane = spread_warp() / (u32)puts.world->transport.rings.rings % (u32)puts.world->lanes;
  return add_command(rank, lane, put_counter(op, which), value);
}

// Whole warps: submits the command of each lane that has one.
__device__ __forceinline__ void push_puts(const Operation& op, bool mine, Command command, u32 rank) {
  const InternodeTransport& transport = op.p.puts->world->transport;
  u32 ring = spread_warp() % (u32)transport.rings.rings;
  // With masks a wait for a late rank may have taken all the time before this push.
  u64 deadline = op.wait.deadline + (op.p.masking ? op.p.timeout : 0);
  if (!submit(transport, ring, mine, command, deadline) && mine) {
    fail_wait(op.wait, PHASE_ROOM, rank, 0, 0);
  }
}

// Puts rows, or parts of rows, of this rank; the warp that has written them to a shadow. Each lane
// with `mine` has one, at `source` there and `target` in the area of `rank`.
__device__ __forceinline__ void put_rows(const Operation& op, bool mine, u32 rank, u64 source,
                                          u64 target, u64 bytes) {
  u32 counter = put_counter(op, COUNTER_ROWS + (u32)(op.number & 1));
  push_puts(op, mine, make_put(op, rank, source, target, bytes, counter), rank);
}

__device__ __forceinline__ u64 multiple_of_16(u64 bytes) { return (bytes + 15) / 16 * 16; }

// Puts this rank's words for `rank`, by a whole warp once they are in the shadow: from the header
// to the entries of `tokens` tokens, then their weights, if any; `some` false: no words. The
// operation will have `rows` puts of rows.
__device__ __forceinline__ void put_words(const Operation& op, u32 rank, bool some, u32 tokens,
                                           bool weights, u32 rows) {
  const LowLatencyParameters& p = op.p;
  u64 run = p.rank * p.source_bytes;
  u64 bytes = (u64)tokens * p.max_choices * 8;
  u64 staging = half_of(op, op.internode_index(rank));
  u64 behind = p.weights_offset - p.headers_offset;
  u32 parity = (u32)(op.number & 1);
  __syncwarp();
  Command command =
      is_lane(0)   ? make_put(op, rank, staging, p.headers_offset + run,
                         multiple_of_16(p.entries_offset - p.headers_offset + bytes), NO_COUNTER)
      : is_lane(1) ? make_put(op, rank, staging + behind, p.weights_offset + run, multiple_of_16(bytes),
                         NO_COUNTER)
      : is_lane(2) ? make_add(op, rank, COUNTER_WORDS + parity, 1)
                  : make_add(op, rank, COUNTER_ROWS + parity, ALL_ROWS - rows);
  bool mine = is_lane(0) ? some : is_lane(1) ? weights && tokens > 0 : lane_id() < 4;
  push_puts(op, mine, command, rank);
}
