// Correctness and speed of the puts, signals and flushes of device_put.cuh, for tests and for `ep4j
// bench put`.
//
// Roles: each warp has the lane of its number and a block of memory; two ranks exchange. Budget:
// 256 threads at most; no shared memory. Invariant: each signal has one writer, the partner's warp
// of the same number.
//
// Memory of a rank: [lanes, bytes] own blocks, then [lanes, bytes] the partner's blocks. Signals,
// by use: [lanes] exchange: the block has arrived; [lanes] exchange: the block has been read;
// [lanes] stream: one add a put; [lanes] stream: answers; one for rounds. Signals grow over the
// life of the memory; `past` holds their values before a run, equal on both ranks: a warp reads and
// writes the entries of its lane.
#include "transport/device_put.cuh"
#include "structs/put_run.cuh"

__device__ __forceinline__ u32 own_lane() {
  return blockIdx.x * (blockDim.x >> 5) + warp_id();
}

__device__ __forceinline__ uint4 pattern(u32 rank, u32 lane, u64 round, u64 vector) {
  u32 x = (u32)(round * 0x9E3779B1u) ^ rank * 0x85EBCA77u ^ lane * 0xC2B2AE3Du ^ (u32)vector * 0x27D4EB2Fu;
  x = (x ^ x >> 15) * 0x2C1B3C6Du;
  x ^= x >> 12;
  return make_uint4(x, x + 1, ~x, x ^ 0xA5A5A5A5u);
}

__device__ __forceinline__ void fill_block(const DevicePut& p, char* at, u32 lane, u64 round, u64 bytes) {
  for (u64 i = lane_id(); i < bytes / 16; i += 32) {
    *(uint4*)(at + i * 16) = pattern((u32)p.rank, lane, round, i);
  }
}

__device__ __forceinline__ u64 wrong_vectors(const char* at, u32 from, u32 lane, u64 round, u64 bytes) {
  u32 wrong = 0;
  for (u64 i = lane_id(); i < bytes / 16; i += 32) {
    uint4 seen = load_row(at + i * 16);
    uint4 due = pattern(from, lane, round, i);
    wrong += seen.x != due.x || seen.y != due.y || seen.z != due.z || seen.w != due.w;
  }
  return __reduce_add_sync(0xffffffff, wrong);
}

constexpr u64 TIMED_OUT = 1ull << 63;

// Every warp exchanges blocks that differ in each round with the partner's warp of its number,
// rewrites its source as soon as a flush has returned, and compares each received block. Results:
// wrong vectors of each warp, or TIMED_OUT and the round.
extern "C" __global__ void __launch_bounds__(256, 1)
    ep4j_put_exchange(const __grid_constant__ DevicePut p, const __grid_constant__ PutRun run) {
  u32 lane = own_lane();
  u32 lanes = (u32)p.lanes;
  u32 partner = (u32)run.partner;
  u64 source = lane * run.bytes;
  u64 target = (lanes + lane) * run.bytes;
  u64 deadline = nanoseconds() + run.timeout;
  u64 wrong = 0;
  u64 past = run.past[lane];
  for (u64 i = 0; i < run.rounds; i++) {
    u64 round = past + i;
    fill_block(p, p.own + source, lane, round, run.bytes);
    // The partner has read the block of the previous round.
    bool done = await_signal(p, lanes + lane, partner, round, deadline) &&
                put(p, lane, partner, target, source, run.bytes, deadline) &&
                signal(p, lane, partner, lane, 1, deadline) && flush(p, lane, partner, deadline) &&
                await_signal(p, lane, partner, round + 1, deadline);
    if (!done) {
      wrong = TIMED_OUT | i;
      break;
    }
    wrong += wrong_vectors(arrivals(p, partner) + target, partner, lane, round, run.bytes);
    __syncwarp();
    signal(p, lane, partner, lanes + lane, 1, deadline);
  }
  __syncwarp();
  if (is_first_lane()) {
    run.past[lane] = past + run.rounds;
    run.results[lane] = wrong;
  }
}

// One warp: a put and a signal to the partner, then the same back. The rank with the lower number
// begins; its results are the nanoseconds of all rounds; 0 if it aborted.
extern "C" __global__ void ep4j_put_rounds(const __grid_constant__ DevicePut p,
                                           const __grid_constant__ PutRun run) {
  u32 partner = (u32)run.partner;
  u32 ping = 4 * (u32)p.lanes;
  bool begins = p.rank < partner;
  u64 past = run.past[ping];
  u64 target = p.lanes * run.bytes;
  u64 deadline = nanoseconds() + run.timeout;
  u64 start = nanoseconds();
  bool done = true;
  for (u64 i = 0; i < run.rounds && done; i++) {
    u64 round = past + i + 1;
    if (!begins) {
      done = await_signal(p, ping, partner, round, deadline);
    }
    done = done && put(p, 0, partner, target, 0, run.bytes, deadline) &&
           signal(p, 0, partner, ping, 1, deadline);
    if (begins) {
      done = done && await_signal(p, ping, partner, round, deadline);
    }
  }
  __syncwarp();
  if (is_first_lane()) {
    run.past[ping] = past + run.rounds;
    run.results[0] = done ? nanoseconds() - start : 0;
  }
}

// All warps of the rank with the lower number put the same block repeatedly, with one signal each;
// the other rank's warps wait for all puts and answer once. Results: nanoseconds of each warp.
extern "C" __global__ void __launch_bounds__(256, 1)
    ep4j_put_stream(const __grid_constant__ DevicePut p, const __grid_constant__ PutRun run) {
  u32 lane = own_lane();
  u32 partner = (u32)run.partner;
  u32 there = 2 * (u32)p.lanes + lane;
  u32 answer = 3 * (u32)p.lanes + lane;
  u64 source = lane * run.bytes;
  u64 target = (p.lanes + lane) * run.bytes;
  u64 deadline = nanoseconds() + run.timeout;
  u64 start = nanoseconds();
  u64 puts = run.past[there] + run.rounds;
  u64 answers = run.past[answer] + 1;
  bool done = true;
  if (p.rank < partner) {
    for (u64 i = 0; i < run.rounds && done; i++) {
      done = put(p, lane, partner, target, source, run.bytes, deadline) &&
             signal(p, lane, partner, there, 1, deadline);
    }
    done = done && flush(p, lane, partner, deadline) &&
           await_signal(p, answer, partner, answers, deadline);
  } else {
    done = await_signal(p, there, partner, puts, deadline) &&
           signal(p, lane, partner, answer, 1, deadline);
  }
  __syncwarp();
  if (is_first_lane()) {
    run.past[there] = puts;
    run.past[answer] = answers;
    run.results[lane] = done ? nanoseconds() - start : 0;
  }
}
