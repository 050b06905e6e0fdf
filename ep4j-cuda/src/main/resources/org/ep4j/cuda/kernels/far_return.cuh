// The warps of a combine across nodes that send back what this node has for tokens of its givers.
#pragma once
#include "far_homes.cuh"
#include "far_mail.cuh"
#include "sums.cuh"

// What a warp writes to a slot passes through pieces in shared memory: they cross a bus, and wide
// stores cross it best.
struct Outlet {
  static constexpr u32 PIECES = 4;
  static constexpr u32 BYTES = 2048;  // a multiple of 512

  char* pieces;
  u32 step = 0;

  __device__ __forceinline__ explicit Outlet(char* pieces) : pieces(pieces) {}

  // All lanes: `vectors` vectors of each, 512 bytes apart, to the address and its followers, of which
  // `bytes` count.
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
    if (lane_id() == 0) {
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

  __device__ __forceinline__ void drain() const {
#if EP4J_TMA
    bulk_wait<0>();
#endif
    fence_proxy();
    __syncwarp();
  }
};

template <class T, class H>
struct Returner {
  const CombineParameters& p;
  const FarWorld& far;
  const Watch& w;
  const FarHomes& homes;
  const Streams& streams;
  AnswerShape shape;
  Outlet outlet;
  const char** rows;  // shared memory of the warp, [64]

  __device__ __forceinline__ Returner(const CombineParameters& p, const FarWorld& far,
                                      const Watch& w, const FarHomes& homes, const Streams& streams,
                                      char* pieces, const char** rows)
      : p(p), far(far), w(w), homes(homes), streams(streams), shape(p), outlet(pieces), rows(rows) {}

  // Chunk `c` of giver `g`. Who reads the letter tells of it.
  __device__ __forceinline__ bool send(Letter& letter, u32 g, u32 c) {
    u32 q = streams.givers[g];
    const FarPartner& partner = far.partner[q];
    u64 number = far.sent[q] + c;
    u64 tokens = p.matrix[p.ranks * (p.ranks + 1) + partner.rank];
    if (!wait_credit(far, w, q, number)) {
      return false;
    }
    char* slot = partner.out + slot_at(far, number);
    char* to = slot;
    u64 first = (u64)c * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, tokens);
    const u64* ways = p.far_ways + (u64)q * p.far_tokens * p.top_k;
    if (!homes.await(p, far, w, 1 + g, ways, first, end)) {
      return false;
    }
    for (u64 token = first; token < end; token++) {
      int count = find(1 + g, ways + token * p.top_k);
      if (count > 0) {
        to = answer(to, count);
      }
    }
    outlet.drain();
    write_letter(letter, LETTER_FULL, number, q, (u32)(to - slot));
    return true;
  }

 private:
  // The rows of a token, in the order of its ways.
  __device__ __forceinline__ int find(u32 home, const u64* ways) {
    u32 found = 0;
    __syncwarp();
    for (u32 first = 0; first < p.top_k; first += 32) {
      u32 k = first + lane_id();
      u64 way = k < p.top_k ? ways[k] : NOWHERE;
      bool leads = way != NOWHERE;
      u32 mask = __ballot_sync(0xffffffff, leads);
      if (leads) {
        rows[found + __popc(mask & ((1u << lane_id()) - 1))] =
            homes.find(p, far, home, way, 16 / T::ELEMENTS);
      }
      found += __popc(mask);
    }
    __syncwarp();
    return (int)found;
  }

  __device__ __forceinline__ char* answer(char* to, int count) {
    bool rounded = H::ELEMENTS == T::ELEMENTS && p.rounded != 0;
    for (int i = 0; i < (rounded ? 1 : count); i++) {
      int some = rounded ? count : 1;
      if constexpr (H::ELEMENTS == T::ELEMENTS) {
        add_up(to, rows + i, some);
      } else {
        copy(to, rows[i]);
      }
      if (AnswerShape::carries_weights(p)) {
        add_weights((float*)(to + shape.weights), rows + i, some);
      }
      to += shape.bytes;
    }
    return to;
  }

  // A row alone is what it is.
  __device__ __forceinline__ void add_up(char* to, const char* const* some, int count) {
    constexpr u32 E = T::ELEMENTS;
    constexpr u32 U = Outlet::BYTES / 512;
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
      outlet.write<U>(to + first * (16 / E), vectors,
                      min(Outlet::BYTES, ((u32)p.columns - first) * (16 / E)));
    }
  }

  __device__ __forceinline__ void copy(char* to, const char* row) {
    constexpr u32 U = Outlet::BYTES / 512;
    u32 bytes = (u32)p.home_row_bytes;
    for (u32 first = 0; first < bytes; first += Outlet::BYTES) {
      uint4 vectors[U];
#pragma unroll
      for (u32 u = 0; u < U; u++) {
        u32 at = first + u * 512 + lane_id() * 16;
        vectors[u] = at < bytes ? load_row(row + at) : make_uint4(0, 0, 0, 0);
      }
      outlet.write<U>(to + first, vectors, min(Outlet::BYTES, bytes - first));
    }
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

template <class T, class H>
__device__ __forceinline__ void return_chunks(Returner<T, H> returner, Letter& letter, u32 warp) {
  const Streams& streams = returner.streams;
  u32 givers = streams.counts[1];
  u32 jobs = streams.most_chunks() * givers;
  u32 stride = gridDim.x * (u32)returner.p.return_warps;
  for (u32 job = warp * gridDim.x + blockIdx.x; job < jobs; job += stride) {
    u32 c = job / givers;
    u32 g = job - c * givers;
    if (c < streams.chunks[g] && !returner.send(letter, g, c)) {
      break;
    }
  }
  write_letter(letter, LETTER_OVER);
}
