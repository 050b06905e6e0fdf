// FLAT: which rows a warp pushes, and what goes with them.
#pragma once
#include "layout.cuh"
#include "rows.cuh"
#include "within.cuh"

// The tokens of a warp, one after the other, as far as they lead anywhere: from `token` to `end` in
// steps of `stride`. Lane i knows the ways i and i + 32 of the token.
template <class Within>
struct TokenRows {
  const DispatchParameters& p;
  Within within;
  u32 token;
  u32 end;
  u32 stride;
  u64 ways[2] = {NOWHERE, NOWHERE};
  bool begun = false;

  __device__ __forceinline__ TokenRows(const DispatchParameters& p, Within within, u32 token,
                                       u32 end, u32 stride)
      : p(p), within(within), token(token), end(end), stride(stride) {}

  __device__ __forceinline__ u64 way(u32 i) const {
    return i < p.top_k ? within.only(p.ways[(u64)token * p.top_k + i]) : NOWHERE;
  }

  // All lanes; false at the end.
  __device__ __forceinline__ bool next() {
    for (;;) {
      if (begun) {
        token += stride;
      }
      begun = true;
      if (token >= end) {
        return false;
      }
      ways[0] = way(lane_id());
      ways[1] = way(lane_id() + 32);
      if (__any_sync(0xffffffff, ways[0] != NOWHERE || ways[1] != NOWHERE)) {
        return true;
      }
    }
  }

  __device__ __forceinline__ const char* row() const { return p.x + (u64)token * p.row_bytes; }

  __device__ __forceinline__ u32 rounds() const { return p.top_k > 32 ? 2 : 1; }

  __device__ __forceinline__ char* place(u32 round) const {
    u64 to = ways[round];
    return to == NOWHERE
               ? nullptr
               : p.peers[way_rank(to)] + p.rows_offset + (u64)way_slot(to) * p.row_bytes;
  }
};

// A run of this rank's rows at rank `to`: numbers `first` to `first + n` of its list, which begin
// there at slot `slot`. Written by `threads` threads.
__device__ __forceinline__ void write_companions(const DispatchParameters& p, u32 to, u32 first,
                                                 u32 slot, u32 n, u32 thread, u32 threads) {
  const u32* list = p.lists + (u64)to * p.tokens + first;
  char* region = p.peers[to];
  int* tokens = (int*)(region + p.tokens_offset) + slot;
  int* sources = (int*)(region + p.sources_offset) + slot;
  for (u32 i = thread; i < n; i += threads) {
    tokens[i] = (int)list[i];
    sources[i] = (int)p.rank;
  }
  if (p.factors != nullptr) {
    float* factors = (float*)(region + p.factors_offset) + slot;
    for (u32 i = thread; i < n; i += threads) {
      factors[i] = p.factors[list[i]];
    }
  }
  if (!p.cached) {
    i64* ids = (i64*)(region + p.ids_offset) + (u64)slot * p.top_k;
    float* weights = (float*)(region + p.weights_offset) + (u64)slot * p.top_k;
    u32 k_count = (u32)p.top_k;
    for (u32 i = thread; i < n * k_count; i += threads) {
      u32 row = i / k_count;
      u64 at = (u64)list[row] * k_count + (i - row * k_count);
      i64 id = expert_of(p, at);
      // Ids that were refused count as none: the host tells the caller.
      u32 owner = (u64)id < p.experts ? p.placement[id] : 0xffffffff;
      bool local = owner >> 16 == to;
      ids[i] = local ? (i64)(owner & 0xffff) : -1;
      if (p.weights != nullptr) {
        weights[i] = local ? p.weights[at] : 0.0f;
      }
    }
  }
  if (p.scales != nullptr) {
    char* scales = region + p.scales_offset + (u64)slot * p.scale_bytes;
    u32 lanes = threads / 32;
    if (((p.scale_bytes | (u64)p.scales) & 3) == 0) {
      u32 words = (u32)p.scale_bytes / 4;
      for (u32 i = thread; i < n * words; i += threads) {
        u32 row = i / words;
        ((u32*)scales)[i] =
            ((const u32*)(p.scales + (u64)list[row] * p.scale_bytes))[i - row * words];
      }
    } else {
      for (u32 row = thread / 32; row < n; row += lanes) {
        copy_bytes(scales + row * p.scale_bytes, p.scales + (u64)list[row] * p.scale_bytes,
                   p.scale_bytes, lane_id(), 32);
      }
    }
  }
}

// Marks the slots from the end of the received rows to the limit.
__device__ __forceinline__ void mark_unused(const DispatchParameters& p, u32 from, u32 thread,
                                            u32 threads) {
  char* region = p.peers[p.rank];
  for (u64 i = from + thread; i < p.limit; i += threads) {
    ((int*)(region + p.tokens_offset))[i] = -1;
    ((int*)(region + p.sources_offset))[i] = -1;
  }
  if (!p.cached) {
    for (u64 i = from * p.top_k + thread; i < p.limit * p.top_k; i += threads) {
      ((i64*)(region + p.ids_offset))[i] = -1;
    }
  }
}

// The warps of a block that do not move rows, all from `moving` on: what goes with rows to the ranks from
// `first` to `end`.
__device__ __forceinline__ void accompany(const DispatchParameters& p, const Slots& slots, u32 first,
                                          u32 end, u32 moving) {
  u32 thread = threadIdx.x - moving * 32;
  u32 threads = blockDim.x - moving * 32;
  for (u32 i = 0; i < end - first; i++) {
    u32 to = first + ((u32)p.rank - first + 1 + blockIdx.x + i) % (end - first);
    u32 room = slots.limit[to] > slots.base[to] ? slots.limit[to] - slots.base[to] : 0;
    u32 rows = min(slots.rows[to], room);
    if (rows > 0) {
      write_companions(p, to, slots.earlier[to], slots.base[to], rows, thread, threads);
    }
  }
  if (p.fill) {
    mark_unused(p, *slots.received, blockIdx.x * threads + thread, gridDim.x * threads);
  }
}
