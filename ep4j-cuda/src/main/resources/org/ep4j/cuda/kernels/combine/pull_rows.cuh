// Combine by pull: the rank that owns a token reads its rows from their holders and adds them; see
// row_places.cuh for when it may. Which rows these are, and in which order they are added, is up to
// a `Rows`:
//   AT_ONCE                        tokens that a pipeline takes at a time
//   ADDITION                       how rows are added, see Addition
//   prefetch(p, token)             loads what list() needs; no such token: nothing
//   list(p, readable, token, element_bytes, ring)   lists the biases and rows of the token in the order
//                                  of their addition, and what it needs beside them; returns their
//                                  number
//   weights_of(p, readable, i)     the sum of the weights of choice i of the rank's choices
// A warp calls prefetch() and list(), all lanes together; a thread calls weights_of().
//
// The warps of a block form PIPELINES pipelines of equal size, each with a ring of slots:
//   first warp      takes tokens and brings the pieces of their rows into the ring, in the order of
//                   their addition
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

enum Addition {
  PLAIN,    // each row is added
  FUSED,    // by a fused multiply-add with its weight
  BY_RANKS  // times its weight to the other rows of its holder, whose sum is rounded if p.rounded, and
            // added
};

// Mark of the address of a row after which the sum of its holder is complete. Rows begin at
// multiples of 16.
constexpr u64 LAST_OF_HOLDER = 1;

// One piece of a token's rows: a run of columns, the same of each row.
struct PullJob {
  u32 token;     // NO_TOKEN: there are no more
  u32 at;        // byte offset of the columns in a row
  u16 bytes;
  u8 rows;
  bool last;     // the row in this slot is the last of its holder
  float weight;  // of the row in this slot
};

using PullRing = RowRing<PullJob>;

// Lists the biases of a token with a mark of their addresses; returns their number. All lanes.
__device__ __forceinline__ u32 list_biases(const CombineParameters& p, u32 token, u32 element_bytes,
                                           const PullRing& ring, u64 mark = 0) {
  u64 own = ((u64)token * p.hidden + p.column) * element_bytes + mark;
  u32 found = 0;
  if (p.bias0 != nullptr) {
    ring.list[found++] = p.bias0 + own;
    if (p.bias1 != nullptr) {
      ring.list[found++] = p.bias1 + own;
    }
  }
  return found;
}

// The tokens of a pipeline, AT_ONCE at a time: the first by its number among all pipelines, the others
// in turn. What the next tokens need is on its way while that of the present ones is used: one token
// takes less time than its number and its routes need to arrive.
template <class Rows>
struct PullTokens {
  u32 pipelines;  // of all blocks
  WorkCounter taken;
  Rows ahead[Rows::AT_ONCE];
  u32 first;

  // All lanes.
  __device__ __forceinline__ PullTokens(const CombineParameters& p, const WaitContext& w, u32 pipeline)
      : pipelines(gridDim.x * PIPELINES), taken(&w.control->jobs) {
    prefetch(p, pipeline);
  }

  // The first of the next tokens, at or behind the last if there are none; `rows` of them. All lanes.
  __device__ __forceinline__ u32 next(const CombineParameters& p, Rows* rows) {
    u32 present = first;
#pragma unroll
    for (u32 i = 0; i < Rows::AT_ONCE; i++) {
      rows[i] = ahead[i];
    }
    prefetch(p, pipelines + taken.next());
    return present;
  }

 private:
  __device__ __forceinline__ void prefetch(const CombineParameters& p, u32 number) {
    first = number * Rows::AT_ONCE;
#pragma unroll
    for (u32 i = 0; i < Rows::AT_ONCE; i++) {
      ahead[i].prefetch(p, first + i);
    }
  }
};

// Brings pieces until no token is left. One warp; only its first lane moves.
template <class Rows>
__device__ __forceinline__ void bring_rows(const CombineParameters& p, PullTokens<Rows>& tokens,
                                           const PullRing& ring, const ReadableRows& readable,
                                           u32 element_bytes) {
  u32 row_bytes = (u32)p.columns * element_bytes;
  RingPosition position;
  // Waits until the slot is free and describes the job there.
  auto begin = [&](const PullJob& job) {
    position.await_empty(ring);
    ring.jobs[position.slot] = job;
  };
  auto bring = [&](u32 token, const Rows& of) {
    u32 rows = of.list(p, readable, token, element_bytes, ring);
    __syncwarp();
    for (u32 at = 0; is_first_lane() && at < row_bytes; at += ring.slot_bytes) {
      PullJob job{token, at, (u16)min(ring.slot_bytes, row_bytes - at), (u8)rows, false, 0};
      begin(job);
      if (rows == 0) {
        position.pass(ring);
      }
      for (u32 i = 0; i < rows; i++) {
        if (i > 0) {
          position.await_empty(ring);
        }
        const char* row = ring.list[i];
        if constexpr (Rows::ADDITION != PLAIN) {
          ring.jobs[position.slot].weight = ring.weights[i];
        }
        if constexpr (Rows::ADDITION == BY_RANKS) {
          ring.jobs[position.slot].last = (u64)row & LAST_OF_HOLDER;
          row = (const char*)((u64)row & ~LAST_OF_HOLDER);
        }
        position.load(ring, row + at, job.bytes);
      }
    }
    __syncwarp();
  };
  // Rows were written by other kernels and become readable by `ready`.
  fence_proxy();
  constexpr u32 AT_ONCE = Rows::AT_ONCE;
  Rows rows[AT_ONCE];
  for (u32 first; (first = tokens.next(p, rows)) < p.tokens;) {
#pragma unroll
    for (u32 i = 0; i < AT_ONCE; i++) {
      if (first + i < p.tokens) {
        bring(first + i, rows[i]);
      }
    }
  }
  if (is_first_lane()) {
    begin(PullJob{NO_TOKEN, 0, 0, 0, false, 0});
    position.pass(ring);
  }
}

// Sums of a thread: PULL_VECTORS vectors.
template <class T, Addition ADDITION>
struct PulledSums {
  static constexpr u32 E = T::ELEMENTS;

  float sum[PULL_VECTORS][E] = {};

  __device__ __forceinline__ void add(u32 u, uint4 vector, float weight) {
    ADDITION == FUSED ? add_fused<T>(sum[u], vector, weight) : add_vector<T>(sum[u], vector);
  }

  __device__ __forceinline__ void end_holder(bool) {}
};

template <class T>
struct PulledSums<T, BY_RANKS> {
  static constexpr u32 E = T::ELEMENTS;

  float sum[PULL_VECTORS][E] = {};
  float of_holder[PULL_VECTORS][E] = {};

  __device__ __forceinline__ void add(u32 u, uint4 vector, float weight) {
    add_products<T>(of_holder[u], vector, weight);
  }

  // Adds the sum of a holder, rounded as if it had travelled.
  __device__ __forceinline__ void end_holder(bool rounded) {
#pragma unroll
    for (u32 u = 0; u < PULL_VECTORS; u++) {
      if (rounded) {
        add_vector<T>(sum[u], round_vector<T>(of_holder[u]));
      } else {
#pragma unroll
        for (u32 e = 0; e < E; e++) {
          sum[u][e] += of_holder[u][e];
        }
      }
#pragma unroll
      for (u32 e = 0; e < E; e++) {
        of_holder[u][e] = 0;
      }
    }
  }
};

// Adds pieces until no token is left; `thread` of `threads` threads, whole warps.
template <class T, Addition ADDITION>
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
    PulledSums<T, ADDITION> sums;
    for (u32 i = 0;;) {
      const char* from = ring.slots + position.slot * ring.slot_bytes;
      float weight = ADDITION == PLAIN ? 0 : ring.jobs[position.slot].weight;
      bool last = ADDITION == BY_RANKS && ring.jobs[position.slot].last;
#pragma unroll
      for (u32 u = 0; u < PULL_VECTORS; u++) {
        u32 at = (thread + u * threads) * 16;
        if (job.rows > 0 && at < job.bytes) {
          sums.add(u, *(const uint4*)(from + at), weight);
        }
      }
      if (last) {
        sums.end_holder(p.rounded);
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
        store_row(to + at, round_vector<T>(sums.sum[u]));
      }
    }
  }
}

// Sums the weights of the rows of tokens; thread `thread` of `threads` of the rank.
template <class Rows>
__device__ __forceinline__ void pull_weights(const CombineParameters& p, const ReadableRows& readable,
                                             u64 thread, u64 threads) {
  u64 all = p.tokens * p.top_k;
  for (u64 i = thread; i < all; i += threads) {
    p.out_weights[i] = Rows::weights_of(p, readable, i);
  }
}

// All threads of all blocks. `shared` holds the rings.
template <class T, class Rows>
__device__ __forceinline__ void pull_rows(const CombineParameters& p, const WaitContext& w,
                                          const ReadableRows& readable, char* shared) {
  u32 warps = (blockDim.x >> 5) / PIPELINES;
  u32 pipeline = warp_id() / warps;
  u32 warp = warp_id() - pipeline * warps;
  u32 number = blockIdx.x * PIPELINES + pipeline;
  PullRing ring(p, shared, pipeline);
  if (warp == 0) {
    PullTokens<Rows> tokens(p, w, number);
    ring.init(warps - 1);
    __syncthreads();
    bring_rows<Rows>(p, tokens, ring, readable, 16 / T::ELEMENTS);
    return;
  }
  __syncthreads();
  u32 threads = (warps - 1) * 32;
  u32 thread = (warp - 1) * 32 + lane_id();
  if (p.weights != nullptr && p.column == 0) {
    pull_weights<Rows>(p, readable, number * threads + thread,
                       gridDim.x * PIPELINES * threads);
  }
  add_pieces<T, Rows::ADDITION>(p, ring, thread, threads);
}
#endif
