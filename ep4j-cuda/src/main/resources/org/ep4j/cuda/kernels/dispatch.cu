// High-throughput dispatch in FLAT order, in one kernel: layout, counts and rows.
//
// Blocks own runs of tokens. Once the slots are known some warps of a block push its rows straight
// into the receive regions, each row from one copy in shared memory to all its ranks, while the
// other warps write what goes with them: a block's rows at a rank are neighbours, so indices,
// weights, scales and sources go out in long runs. The last block tells the peers that all is
// written, waits until they have said the same, and so ends the operation.
//
// A cached dispatch takes ways, lists and matrix from the handle instead of counting, and waits for
// its peers' `ready` before it writes to them.
#include "finish.cuh"
#include "rows.cuh"
#include "totals.cuh"

// The tokens of a warp, one after the other, as far as they lead anywhere: from `token` to `end` in
// steps of `stride`. Lane i knows the ways i and i + 32 of the token.
struct TokenRows {
  const DispatchParameters& p;
  u32 token;
  u32 end;
  u32 stride;
  u64 ways[2] = {NOWHERE, NOWHERE};
  bool begun = false;

  __device__ __forceinline__ TokenRows(const DispatchParameters& p, u32 token, u32 end, u32 stride)
      : p(p), token(token), end(end), stride(stride) {}

  __device__ __forceinline__ u64 way(u32 i) const {
    return i < p.top_k ? p.ways[(u64)token * p.top_k + i] : NOWHERE;
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

// The warps that push rows.
__device__ __forceinline__ void push(const DispatchParameters& p, Chunk chunk, char* stages,
                                     u64* barriers) {
  u32 warp = warp_id();
  Ring ring(stages + warp * STAGES * p.stage_bytes, barriers + warp * STAGES, (u32)p.stage_bytes);
  TokenRows rows(p, chunk.begin + warp, chunk.end, (u32)p.push_warps);
  move_rows(ring, rows, rows, (u32)p.row_bytes);
}

// The other warps.
__device__ __forceinline__ void accompany(const DispatchParameters& p, const Slots& slots) {
  u32 thread = threadIdx.x - p.push_warps * 32;
  u32 threads = blockDim.x - p.push_warps * 32;
  for (u32 i = 0; i < p.ranks; i++) {
    u32 to = (u32)((p.rank + 1 + blockIdx.x + i) % p.ranks);
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

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_dispatch(const __grid_constant__ DispatchParameters p) {
  extern __shared__ __align__(128) char shared[];
  // Shared memory: stages of the pushing warps, their barriers, then words.
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  u32* expert_counts = (u32*)(barriers + p.push_warps * STAGES);
  u32* slot_words = expert_counts + p.experts;
  u32* tile_words = slot_words + Slots::ARRAYS * p.ranks + 1;

  Watch w = watch_of((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt)) {
    return;
  }
  Chunk chunk = Chunk::of(p.tokens, blockIdx.x, gridDim.x);
  Slots slots(slot_words, p.ranks);
  if (p.cached) {
    say_ready(p, w);
    await_ready(p, w);
    recall_slots(p, slots);
    if (blockIdx.x == 0) {
      repeat_totals(p);
    }
  } else {
    CountedExperts experts(p, expert_counts);
    Tiles tiles(tile_words, (u32)p.ranks, blockDim.x >> 5);
    count_chunk(p, w, chunk, tiles, experts);
    publish_block(p, w, tiles, experts);
    if (blockIdx.x == 0) {
      publish_rank(p, w);
    }
    find_slots(p, w, slots, tiles, 0);
    resolve_chunk(p, chunk, slots);
    if (blockIdx.x == 0) {
      write_totals(p, w, slots);
    }
  }
  if (!__syncthreads_or(aborted(w))) {
    if (warp_id() < p.push_warps) {
      push(p, chunk, shared, barriers);
    } else {
      accompany(p, slots);
    }
  }
  finish(p, w, false);
}
