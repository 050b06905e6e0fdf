// Combine of EXPERT_MAJOR rows, the adding warps: rows of type T, returned rows of type H.
//
// Invariant: the order of additions is fixed, whatever order warps run in: biases, returned rows of
// ranks before this one, the rounded sum of the rows of own experts, returned rows of ranks after
// it. The rows of own experts come first, because no rank has to return them, and so that their
// sum is rounded before a thread needs its registers for the others.
#pragma once
#include "combine/expert_jobs.cuh"
#include "combine/push_notices.cuh"
#include "combine/sums.cuh"

#if EP4J_TMA

// The sums of a thread: vectors of E elements, `threads` vectors apart.
template <class T, class H>
struct ExpertSums {
  static constexpr u32 E = T::ELEMENTS;

  // A slot holds as many columns of a returned row as of any other.
  static constexpr u32 VECTORS = SUM_VECTORS * H::ELEMENTS / E;

  const CombineParameters& p;
  const ExpertRing& ring;
  u32 thread;
  u32 threads;
  RingPosition position;
  float sum[VECTORS][E];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
#pragma unroll
      for (u32 e = 0; e < E; e++) {
        sum[u][e] = 0;
      }
    }
  }

  // Calls body(u, column) for each vector of the thread.
  template <class Body>
  __device__ __forceinline__ void each_vector(u32 columns, Body body) const {
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
      u32 column = (thread + u * threads) * E;
      if (column < columns) {
        body(u, column);
      }
    }
  }

  // Adds the next `count` rows, of type R. `weighted`: times their weights.
  template <class R>
  __device__ __forceinline__ void add(u32 columns, u32 count, bool weighted = false) {
#pragma unroll 1
    for (; count > 0; count--) {
      position.await_full(ring);
      StagedRows row{ring.slots + position.slot * ring.slot_bytes, 0};
      float weight = weighted ? ring.jobs[position.slot].weight : 0;
      auto add_vector = [&](u32 u, const ReturnedVector<T, R>& vector) {
        if (weighted) {
          vector.add_products_to(sum[u], weight);
        } else {
          vector.add_to(sum[u]);
        }
      };
      if (columns == VECTORS * threads * E) {
        // All loads before the first sum: they take longer than the sums.
        ReturnedVector<T, R> vectors[VECTORS];
#pragma unroll
        for (u32 u = 0; u < VECTORS; u++) {
          vectors[u].load(row, 0, (thread + u * threads) * E);
        }
#pragma unroll
        for (u32 u = 0; u < VECTORS; u++) {
          add_vector(u, vectors[u]);
        }
      } else {
        each_vector(columns, [&](u32 u, u32 column) {
          ReturnedVector<T, R> vector;
          vector.load(row, 0, column);
          add_vector(u, vector);
        });
      }
      position.release(ring);
    }
  }

  // All jobs of the pipeline; `warp` of its adding warps.
  __device__ __forceinline__ void run(PushNotices& notices, u32 warp) {
    u32 written = 0;
    for (;;) {
      position.await_full(ring);
      ExpertJob job = ring.jobs[position.slot];
      u32 columns = job.columns;
      if (columns == 0) {
        return;
      }
      if (job.rows() == 0) {
        position.release(ring);
      }
      clear();
      add<T>(columns, job.own, APPLIES_WEIGHTS);
      ReturnedVector<T, H> own[VECTORS];
#pragma unroll
      for (u32 u = 0; u < VECTORS; u++) {
        own[u].round(sum[u]);
      }
      if (job.pushed) {
        each_vector(columns, [&](u32 u, u32 column) {
          own[u].store(job.to + column * (16 / H::ELEMENTS));
        });
        if (job.ends_group) {
          notices.publish(warp, ++written);
        }
        continue;
      }
      clear();
      add<T>(columns, job.biases);
      add<H>(columns, job.before);
      if (job.own > 0) {
        each_vector(columns, [&](u32 u, u32) { own[u].add_to(sum[u]); });
      }
      add<H>(columns, job.after);
      each_vector(columns, [&](u32 u, u32 column) {
        store_row(job.to + column * (16 / E), round_vector<T>(sum[u]));
      });
    }
  }
};

#endif
