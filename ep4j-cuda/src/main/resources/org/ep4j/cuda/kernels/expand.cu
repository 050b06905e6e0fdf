// EXPERT_MAJOR: from the rows that a dispatch delivered in FLAT order to one row for each (row,
// local expert), grouped by expert. Runs after the dispatch on the same GPU and reaches no other.
//
// Inside a group rows keep their order, so blocks own runs of FLAT rows and count their pairs
// first: group_counts[b][*] is written by block b with the epoch in the word, read by the blocks
// after it. Each row is then loaded once and stored to all its places. A repeated dispatch finds the
// places in the handle.
#include "expand_parameters.cuh"
#include "rows.cuh"
#include "tiles.cuh"

constexpr u64 NOWHERE = ~0ull;

struct FlatRows {
  const ExpandParameters& p;
  u32 at;
  u32 end;
  u32 stride;
  u64 first_place = NOWHERE;
  u64 second_place = NOWHERE;
  bool begun = false;

  __device__ __forceinline__ FlatRows(const ExpandParameters& p, u32 at, u32 end, u32 stride)
      : p(p), at(at), end(end), stride(stride) {}

  __device__ __forceinline__ u64 load(u32 i) const {
    return i < p.top_k ? p.places[(u64)at * p.top_k + i] : NOWHERE;
  }

  __device__ __forceinline__ bool next() {
    for (;;) {
      if (begun) {
        at += stride;
      }
      begun = true;
      if (at >= end) {
        return false;
      }
      first_place = load(lane_id());
      second_place = load(lane_id() + 32);
      if (__any_sync(0xffffffff, first_place != NOWHERE || second_place != NOWHERE)) {
        return true;
      }
    }
  }

  __device__ __forceinline__ const char* row() const { return p.from_rows + at * p.row_bytes; }

  __device__ __forceinline__ u32 rounds() const { return p.top_k > 32 ? 2 : 1; }

  __device__ __forceinline__ char* place(u32 round) const {
    u64 to = round == 0 ? first_place : second_place;
    return to == NOWHERE ? nullptr : p.rows + (u64)(u32)to * p.row_bytes;
  }
};

// The experts of a row: up to eight in registers, more from memory.
struct RowExperts {
  static constexpr u32 MOST = 8;
  const i64* from;
  u32 count;
  i64 held[MOST];

  __device__ __forceinline__ RowExperts(const ExpandParameters& p, u32 row)
      : from(p.from_ids + (u64)row * p.top_k), count((u32)p.top_k) {
#pragma unroll
    for (u32 k = 0; k < MOST; k++) {
      held[k] = k < count ? from[k] : -1;
    }
  }

  // Calls body(choice, expert) for all local experts.
  template <class Body>
  __device__ __forceinline__ void each(Body body) const {
#pragma unroll
    for (u32 k = 0; k < MOST; k++) {
      if (held[k] >= 0) {
        body(k, (u32)held[k]);
      }
    }
    for (u32 k = MOST; k < count; k++) {
      i64 expert = from[k];
      if (expert >= 0) {
        body(k, (u32)expert);
      }
    }
  }

  // Local experts below this one.
  __device__ __forceinline__ u32 below(u32 expert) const {
    u32 n = 0;
    each([&](u32, u32 other) { n += other < expert; });
    return n;
  }
};

// Writes where the pairs of rows begin to end go; `base` is the block's first row in each group.
__device__ __forceinline__ void find_places(const ExpandParameters& p, u32* tile_words, u32 begin,
                                            u32 end, const u32* base) {
  Tiles tiles(tile_words, (u32)p.local_experts, blockDim.x >> 5);
  for (u32 first = begin; first < end; first += blockDim.x) {
    u32 row = first + threadIdx.x;
    bool mine = row < end;
    if (first != begin) {
      tiles.clear();
    }
    // Past the end the first row is looked at, and nothing is done with it.
    RowExperts experts(p, mine ? row : begin);
    if (mine) {
      experts.each([&](u32, u32 expert) { tiles.mark(expert); });
    }
    tiles.close();
    if (mine) {
      u64* places = p.places + (u64)row * p.top_k;
      u32 found = 0;
      experts.each([&](u32 choice, u32 expert) {
        u32 to = base[expert] + tiles.number(expert);
        places[experts.below(expert)] = to < p.limit ? (u64)choice << 32 | to : NOWHERE;
        found++;
      });
      for (; found < p.top_k; found++) {
        places[found] = NOWHERE;
      }
    }
  }
  __syncthreads();
}

// Counts the block's pairs and adds those of the blocks before it: first rows into `base`.
__device__ __forceinline__ void count_pairs(const ExpandParameters& p, const Watch& w, u32 begin,
                                            u32 end, u32* base) {
  u64* counts = p.group_counts + (u64)blockIdx.x * p.local_experts;
  for (u32 e = threadIdx.x; e < p.local_experts; e += blockDim.x) {
    base[e] = 0;
  }
  __syncthreads();
  for (u64 i = begin * p.top_k + threadIdx.x; i < end * p.top_k; i += blockDim.x) {
    i64 expert = p.from_ids[i];
    if (expert >= 0) {
      atomicAdd(&base[expert], 1);
    }
  }
  __syncthreads();
  u32 local = (u32)p.local_experts;
  for (u32 e = threadIdx.x; e < local; e += blockDim.x) {
    store_relaxed_system(&counts[e], tagged(w.epoch, base[e]));
    base[e] = p.group_starts[e];
  }
  __syncthreads();
  // Several threads share the earlier blocks of an expert.
  u32 parts = max(1u, blockDim.x / max(1u, local));
  for (u32 i = threadIdx.x; i < local * parts; i += blockDim.x) {
    u32 part = i / local;
    u32 first = blockIdx.x * part / parts;
    u32 end_block = blockIdx.x * (part + 1) / parts;
    u32 e = i - part * local;
    atomicAdd(&base[e],
              sum_tagged(w, p.group_counts + (u64)first * local + e, end_block - first, local));
  }
  __syncthreads();
}

// The scales of a row to all its places, which lanes hold.
__device__ __forceinline__ void write_scales(const ExpandParameters& p, u32 row, u64 place) {
  const char* from = p.from_scales + row * p.scale_bytes;
  u32 places = __ballot_sync(0xffffffff, place != NOWHERE);
  if (((p.scale_bytes | (u64)from) & 3) == 0 && p.scale_bytes <= 512) {
    // A lane holds up to four words; they are loaded once.
    u32 words = (u32)p.scale_bytes / 4;
    u32 held[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u32 at = i * 32 + lane_id();
      held[i] = at < words ? ((const u32*)from)[at] : 0;
    }
    for (; places != 0; places &= places - 1) {
      u32 to = (u32)__shfl_sync(0xffffffff, place, __ffs(places) - 1);
      u32* target = (u32*)(p.scales + to * p.scale_bytes);
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        u32 at = i * 32 + lane_id();
        if (at < words) {
          target[at] = held[i];
        }
      }
    }
    return;
  }
  for (; places != 0; places &= places - 1) {
    u32 to = (u32)__shfl_sync(0xffffffff, place, __ffs(places) - 1);
    copy_bytes(p.scales + to * p.scale_bytes, from, p.scale_bytes, lane_id(), 32);
  }
}

// What goes with the rows: a warp a row, a lane a place.
__device__ __forceinline__ void write_companions(const ExpandParameters& p, u32 begin, u32 end) {
  u32 warps = (blockDim.x >> 5) - (u32)p.push_warps;
  for (u32 row = begin + warp_id() - (u32)p.push_warps; row < end; row += warps) {
    int token = p.from_tokens[row];
    int source = p.from_sources[row];
    for (u32 first = 0; first < p.top_k; first += 32) {
      u32 i = first + lane_id();
      u64 place = i < p.top_k ? p.places[(u64)row * p.top_k + i] : NOWHERE;
      if (place != NOWHERE) {
        u32 to = (u32)place;
        p.tokens[to] = token;
        p.sources[to] = source;
        if (p.from_weights != nullptr) {
          p.weights[to] = p.from_weights[(u64)row * p.top_k + (place >> 32)];
        }
        if (p.from_factors != nullptr) {
          p.factors[to] = p.from_factors[row];
        }
      }
      if (p.from_scales != nullptr) {
        write_scales(p, row, place);
      }
    }
  }
}

__device__ __forceinline__ void clear_bytes(char* at, u64 bytes) {
  if ((((u64)at | bytes) & 15) == 0) {
    for (u64 i = lane_id(); i < bytes / 16; i += 32) {
      ((uint4*)at)[i] = make_uint4(0, 0, 0, 0);
    }
  } else {
    for (u64 i = lane_id(); i < bytes; i += 32) {
      at[i] = 0;
    }
  }
}

// Marks a row that no token has: a warp.
__device__ __forceinline__ void mark_empty(const ExpandParameters& p, u64 row, bool zero) {
  if (lane_id() == 0) {
    p.tokens[row] = -1;
    p.sources[row] = -1;
    if (!p.cached) {
      p.weights[row] = 0;
    }
  }
  if (zero) {
    clear_bytes(p.rows + row * p.row_bytes, p.row_bytes);
    if (p.from_scales != nullptr) {
      clear_bytes(p.scales + row * p.scale_bytes, p.scale_bytes);
    }
  }
}

__device__ __forceinline__ void mark_padding(const ExpandParameters& p) {
  u32 warps = (blockDim.x >> 5) - (u32)p.push_warps;
  u32 warp = blockIdx.x * warps + warp_id() - (u32)p.push_warps;
  u32 all = gridDim.x * warps;
  for (u32 e = 0; e < p.local_experts; e++) {
    u64 next = min((u64)p.group_starts[e + 1], p.limit);
    for (u64 row = p.group_starts[e] + p.group_rows[e] + warp; row < next; row += all) {
      mark_empty(p, row, p.zero);
    }
  }
  if (p.fill) {
    for (u64 row = p.group_starts[p.local_experts] + warp; row < p.limit; row += all) {
      mark_empty(p, row, false);
    }
  }
}

extern "C" __global__ void __launch_bounds__(512, 1)
    ep4j_expand(const __grid_constant__ ExpandParameters p) {
  extern __shared__ __align__(128) char shared[];
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  u32* base = (u32*)(barriers + p.push_warps * STAGES);
  u32* tile_words = base + p.local_experts;

  Watch w = watch_of(p.control, p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt)) {
    return;
  }
  u64 rows = *p.flat_rows;
  u32 begin = rows * blockIdx.x / gridDim.x;
  u32 end = rows * (blockIdx.x + 1) / gridDim.x;
  if (!p.cached) {
    count_pairs(p, w, begin, end, base);
    find_places(p, tile_words, begin, end, base);
  }
  u32 warp = warp_id();
  if (warp < p.push_warps) {
    Ring ring(shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES, (u32)p.stage_bytes);
    FlatRows work(p, begin + warp, end, (u32)p.push_warps);
    move_rows(ring, work, work, (u32)p.row_bytes);
  } else {
    write_companions(p, begin, end);
    mark_padding(p);
  }
  if (last_block(w.control) && threadIdx.x == 0) {
    end_epoch(w, p.receipt);
  }
}
