// Combine by pull: the rank that owns a token reads its rows from their holders and adds them; see
// row_places.cuh for when it may.
//
// The warps of a block form PIPELINES pipelines of equal size, each with a ring of slots:
//   first warp      takes tokens and brings the pieces of their rows into the ring, biases first,
//                   then in ascending rank order
//   other warps     sum some weights while the first rows are on their way; then add the pieces of
//                   a token as they arrive, each thread its columns, and store the result
// The slot with the first piece of a job carries its description (row_ring.cuh).
//
// All adding warps work on one token at a time, so its overhead (two waits, an arrival, a
// description for each row) is paid by each of them: two pipelines of 8 warps pay half of what one
// of 16 pays.
//
// Budget: 512 threads, so at most 128 registers a thread; PULL_VECTORS vectors of sums.
#pragma once
#include "combine/row_places.cuh"
#include "combine/row_ring.cuh"
#include "combine/sums.cuh"

// Without bulk loads rows are never readable, so ranks push.
#if EP4J_TMA

// Vectors of 16 bytes of a slot that a thread adds, as in
// org.ep4j.cuda.engine.throughput.RingStages.
constexpr u32 PULL_VECTORS = 5;

constexpr u32 NO_TOKEN = ~0u;

// Tokens that a pipeline takes at a time.
constexpr u32 TOKENS_AT_ONCE = 4;

// One piece of a token's rows: a run of columns, the same of each row.
struct PullJob {
  u32 token;  // NO_TOKEN: there are no more
  u32 rows;
  u32 at;     // byte offset of the columns in a row
  u32 bytes;
};

using PullRing = RowRing<PullJob>;

// Lists the biases and rows of a token in the order of their addition; returns their number. All
// lanes; `list` is shared memory.
__device__ __forceinline__ u32 list_token_rows(const CombineParameters& p, const ReadableRows& readable,
                                               u32 token, const TokenRoutes& of, u32 element_bytes,
                                               const char** list) {
  u64 own = ((u64)token * p.hidden + p.column) * element_bytes;
  u32 found = 0;
  if (p.bias0 != nullptr) {
    list[found++] = p.bias0 + own;
    if (p.bias1 != nullptr) {
      list[found++] = p.bias1 + own;
    }
  }
#pragma unroll
  for (u32 round = 0; round < ROUNDS; round++) {
    u64 route = of.routes[round];
    bool valid = route != NO_ROUTE;
    u32 mask = __ballot_sync(0xffffffff, valid);
    if (valid) {
      list[found + __popc(mask & ((1u << lane_id()) - 1))] =
          readable.rows[route >> 32] + (u64)(u32)route * p.hidden * element_bytes;
    }
    found += __popc(mask);
  }
  return found;
}

// Brings pieces until no token is left. One warp; only its first lane moves.
__device__ __forceinline__ void bring_rows(const CombineParameters& p, const WaitContext& w,
                                           const PullRing& ring, const ReadableRows& readable,
                                           u32 element_bytes) {
  u32 row_bytes = (u32)p.columns * element_bytes;
  RingPosition position;
  // Waits until the slot is free and describes the job there.
  auto begin = [&](const PullJob& job) {
    position.await_empty(ring);
    ring.jobs[position.slot] = job;
  };
  auto bring = [&](u32 token, const TokenRoutes& routes) {
    u32 rows = list_token_rows(p, readable, token, routes, element_bytes, ring.list);
    __syncwarp();
    for (u32 at = 0; lane_id() == 0 && at < row_bytes; at += ring.slot_bytes) {
      PullJob job{token, rows, at, min(ring.slot_bytes, row_bytes - at)};
      begin(job);
      if (rows == 0) {
        position.pass(ring);
      }
      for (u32 i = 0; i < rows; i++) {
        if (i > 0) {
          position.await_empty(ring);
        }
        position.load(ring, ring.list[i] + at, job.bytes);
      }
    }
    __syncwarp();
  };
  // Rows were written by other kernels and become readable by `ready`.
  fence_proxy();
  // The routes of the next tokens are on their way while those of the present ones are used: one
  // token takes less time than its number and its routes need to arrive.
  WorkCounter taken(&w.control->jobs);
  TokenRoutes next[TOKENS_AT_ONCE];
  u32 first = taken.next() * TOKENS_AT_ONCE;
#pragma unroll
  for (u32 i = 0; i < TOKENS_AT_ONCE; i++) {
    next[i].prefetch(p, first + i);
  }
  while (first < p.tokens) {
    TokenRoutes routes[TOKENS_AT_ONCE];
    u32 present = first;
    first = taken.next() * TOKENS_AT_ONCE;
#pragma unroll
    for (u32 i = 0; i < TOKENS_AT_ONCE; i++) {
      routes[i] = next[i];
      next[i].prefetch(p, first + i);
    }
#pragma unroll
    for (u32 i = 0; i < TOKENS_AT_ONCE; i++) {
      if (present + i < p.tokens) {
        bring(present + i, routes[i]);
      }
    }
  }
  if (lane_id() == 0) {
    begin(PullJob{NO_TOKEN, 0, 0, 0});
    position.pass(ring);
  }
}

// Adds pieces until no token is left; `thread` of `threads` threads, whole warps.
template <class T>
__device__ __forceinline__ void add_pieces(const CombineParameters& p, const PullRing& ring, u32 thread,
                                           u32 threads) {
  constexpr u32 E = T::ELEMENTS;
  char* out = p.out + p.column * (16 / E);
  RingPosition position;
  for (;;) {
    position.await_full(ring);
    PullJob job = ring.jobs[position.slot];
    if (job.token == NO_TOKEN) {
      return;
    }
    float sum[PULL_VECTORS][E] = {};
    for (u32 i = 0;;) {
      const char* from = ring.slots + position.slot * ring.slot_bytes;
#pragma unroll
      for (u32 u = 0; u < PULL_VECTORS; u++) {
        u32 at = (thread + u * threads) * 16;
        if (job.rows > 0 && at < job.bytes) {
          add_vector<T>(sum[u], *(const uint4*)(from + at));
        }
      }
      position.release(ring);
      if (++i >= job.rows) {
        break;
      }
      position.await_full(ring);
    }
    char* to = out + (u64)job.token * p.hidden * (16 / E) + job.at;
#pragma unroll
    for (u32 u = 0; u < PULL_VECTORS; u++) {
      u32 at = (thread + u * threads) * 16;
      if (at < job.bytes) {
        store_row(to + at, round_vector<T>(sum[u]));
      }
    }
  }
}

// Sums the weights of the rows of tokens, in rank order; thread `thread` of `threads` of the rank.
__device__ __forceinline__ void pull_weights(const CombineParameters& p, const ReadableRows& readable,
                                             u64 thread, u64 threads) {
  constexpr u32 AT_ONCE = 8;  // loads in flight
  u64 all = p.tokens * p.top_k;
  for (u64 i = thread; i < all; i += threads) {
    const u64* routes = p.routes + i / p.top_k * p.top_k;
    float sum = 0;
    for (u32 first = 0; first < p.top_k; first += AT_ONCE) {
      float weights[AT_ONCE];
      bool some[AT_ONCE];
#pragma unroll
      for (u32 k = 0; k < AT_ONCE; k++) {
        u64 route = first + k < p.top_k ? routes[first + k] : NO_ROUTE;
        some[k] = route != NO_ROUTE;
        weights[k] = !some[k] ? 0
                              : __ldcg(readable.weights[route >> 32] +
                                       (u64)(u32)route * p.top_k + i % p.top_k);
      }
#pragma unroll
      for (u32 k = 0; k < AT_ONCE; k++) {
        sum = some[k] ? sum + weights[k] : sum;
      }
    }
    p.out_weights[i] = sum;
  }
}

// All threads of all blocks. `shared` holds the rings.
template <class T>
__device__ __forceinline__ void pull_rows(const CombineParameters& p, const WaitContext& w,
                                          const ReadableRows& readable, char* shared) {
  u32 warps = (blockDim.x >> 5) / PIPELINES;
  u32 pipeline = warp_id() / warps;
  u32 warp = warp_id() - pipeline * warps;
  PullRing ring(p, shared, pipeline);
  if (warp == 0) {
    ring.init(warps - 1);
  }
  __syncthreads();
  if (warp == 0) {
    bring_rows(p, w, ring, readable, 16 / T::ELEMENTS);
    return;
  }
  u32 threads = (warps - 1) * 32;
  u32 thread = (warp - 1) * 32 + lane_id();
  if (p.weights != nullptr && p.column == 0) {
    pull_weights(p, readable, (blockIdx.x * PIPELINES + pipeline) * threads + thread,
                 gridDim.x * PIPELINES * threads);
  }
  add_pieces<T>(p, ring, thread, threads);
}
#endif
