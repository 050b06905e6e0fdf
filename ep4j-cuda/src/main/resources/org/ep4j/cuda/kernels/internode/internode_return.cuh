// The returning warps of an internode combine: they send this node's rows for tokens back to their
// senders.
#pragma once
#include "internode/internode_return_layout.cuh"
#include "internode/slot_notices.cuh"
#include "combine/sums.cuh"

// Stores to a slot pass through pieces in shared memory: they cross a bus, where wide stores are
// fastest.
struct StoreStages {
  static constexpr u32 PIECES = 4;
  static constexpr u32 BYTES = 2048;  // a multiple of 512

  char* pieces;
  u32 step = 0;

  __device__ __forceinline__ explicit StoreStages(char* pieces) : pieces(pieces) {}

  // All lanes: each lane holds `vectors`, 512 bytes apart; writes the first `bytes` of them to
  // `to`.
  template <u32 VECTORS>
  __device__ __forceinline__ void write(char* to, const uint4* vectors, u32 bytes) {
#if EP4J_TMA
    char* piece = pieces + step % PIECES * BYTES;
    bulk_wait_read<PIECES - 1>();
    __syncwarp();
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
      *(uint4*)(piece + u * 512 + lane_id() * 16) = vectors[u];
    }
    fence_proxy();
    __syncwarp();
    if (is_first_lane()) {
      bulk_store(to, piece, bytes);
    }
    bulk_commit();
    step++;
#else
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
      u32 at = u * 512 + lane_id() * 16;
      if (at < bytes) {
        store_row(to + at, vectors[u]);
      }
    }
#endif
  }

  // All lanes: copies `bytes`, a multiple of 16.
  __device__ __forceinline__ void copy(char* to, const char* from, u32 bytes) {
    constexpr u32 U = BYTES / 512;
    for (u32 first = 0; first < bytes; first += BYTES) {
      uint4 vectors[U];
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        u32 at = first + u * 512 + lane_id() * 16;
        vectors[u] = at < bytes ? load_row(from + at) : make_uint4(0, 0, 0, 0);
      }
      write<U>(to + first, vectors, min(BYTES, bytes - first));
    }
  }

  __device__ __forceinline__ void drain() const {
#if EP4J_TMA
    bulk_wait<0>();
#endif
    fence_proxy();
    __syncwarp();
  }
};

template <class T, class H>
struct ChunkReturner {
  const CombineParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;
  const InternodeReturnLayout& return_layout;
  const ChunkSchedule& schedule;
  ReturnRecordLayout shape;
  StoreStages store_stages;
  const char** rows;  // shared memory of the warp, [64]

  __device__ __forceinline__ ChunkReturner(const CombineParameters& p, const InternodeWorld& world,
                                      const WaitContext& w, const InternodeReturnLayout& return_layout, const ChunkSchedule& schedule,
                                      char* pieces, const char** rows)
      : p(p), world(world), w(w), return_layout(return_layout), schedule(schedule), shape(p), store_stages(pieces), rows(rows) {}

  // Chunk `c` of sender `g`. The notifying warp sends the slot of the notice.
  __device__ __forceinline__ bool send(SlotNotice& notice, u32 g, u32 c) {
    u32 q = schedule.senders[g];
    const InternodePartner& partner = world.partner[q];
    u64 number = world.sent[q] + c;
    u64 tokens = matrix_row(p, ROW_TOKENS)[partner.rank];
    if (!wait_credit(world, w, q, number)) {
      return false;
    }
    char* slot = partner.out + slot_at(world, number);
    char* to = slot;
    u64 first = (u64)c * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, tokens);
    const u64* routes = p.internode_routes + (u64)q * p.internode_tokens * p.top_k;
    if (!return_layout.await(p, world, w, 1 + g, routes, first, end, false)) {
      return false;
    }
    for (u64 token = first; token < end; token++) {
      int count = find(1 + g, routes + token * p.top_k);
      if (count > 0) {
        to = write_record(to, count);
      }
    }
    store_stages.drain();
    post_notice(notice, NOTICE_FULL, number, q, (u32)(to - slot));
    return true;
  }

 private:
  // The rows of a token, in route order.
  __device__ __forceinline__ int find(u32 section, const u64* routes) {
    u32 found = 0;
    __syncwarp();
    for (u32 first = 0; first < p.top_k; first += 32) {
      u32 k = first + lane_id();
      u64 route = k < p.top_k ? routes[k] : NO_ROUTE;
      bool valid = route != NO_ROUTE;
      u32 mask = __ballot_sync(0xffffffff, valid);
      if (valid) {
        rows[found + __popc(mask & ((1u << lane_id()) - 1))] =
            return_layout.find(p, world, section, route, 16 / T::ELEMENTS);
      }
      found += __popc(mask);
    }
    __syncwarp();
    return (int)found;
  }

  __device__ __forceinline__ char* write_record(char* to, int count) {
    bool rounded = H::ELEMENTS == T::ELEMENTS && p.rounded != 0;
    for (int i = 0; i < (rounded ? 1 : count); i++) {
      int some = rounded ? count : 1;
      if constexpr (H::ELEMENTS == T::ELEMENTS) {
        sum_rows(to, rows + i, some);
      } else {
        copy(to, rows[i]);
      }
      if (ReturnRecordLayout::carries_weights(p)) {
        add_weights((float*)(to + shape.weights), rows + i, some);
      }
      to += shape.bytes;
    }
    return to;
  }

  // A single row is copied unchanged.
  __device__ __forceinline__ void sum_rows(char* to, const char* const* some, int count) {
    constexpr u32 E = T::ELEMENTS;
    constexpr u32 U = StoreStages::BYTES / 512;
    if (count == 1) {
      copy(to, some[0]);
      return;
    }
    for (u32 first = 0; first < p.columns; first += 32 * E * U) {
      float sum[U][E] = {};
      add_rows<T, T, U, 2>(sum, MemoryRows{some}, count, first + lane_id() * E,
                           (u32)p.columns);
      uint4 vectors[U];
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        vectors[u] = round_vector<T>(sum[u]);
      }
      store_stages.write<U>(to + first * (16 / E), vectors,
                      min(StoreStages::BYTES, ((u32)p.columns - first) * (16 / E)));
    }
  }

  __device__ __forceinline__ void copy(char* to, const char* row) {
    store_stages.copy(to, row, (u32)p.return_row_bytes);
  }

  __device__ __forceinline__ void add_weights(float* to, const char* const* some, int count) {
    for (u32 k = lane_id(); k < p.top_k; k += 32) {
      float sum = 0;
      for (int i = 0; i < count; i++) {
        sum += __ldcg(row_weights(p, some[i], 16 / T::ELEMENTS) + k);
      }
      to[k] = sum;
    }
  }
};

// A Returner has
//   p, schedule
//   send(notice, g, c)   fills the slot of chunk `c` of sender `g`; all lanes; false on abort
template <class Returner>
__device__ __forceinline__ void return_chunks(Returner returner, SlotNotice& notice, u32 warp) {
  const ChunkSchedule& schedule = returner.schedule;
  u32 senders = schedule.counts[1];
  u32 jobs = schedule.max_chunks() * senders;
  u32 stride = gridDim.x * (u32)returner.p.return_warps;
  for (u32 job = warp * gridDim.x + blockIdx.x; job < jobs; job += stride) {
    u32 c = job / senders;
    u32 g = job - c * senders;
    if (c < schedule.chunks[g] && !returner.send(notice, g, c)) {
      break;
    }
  }
  post_notice(notice, NOTICE_END);
}
