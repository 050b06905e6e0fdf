// EXPERT_MAJOR: from the rows that a dispatch delivered in FLAT order to one row for each (row,
// local expert), grouped by expert. Runs after the dispatch on the same GPU and reaches no other.
//
// Inside a group rows keep their order, so blocks own runs of FLAT rows and count their pairs
// first: group_counts[b][*] is written by block b with the epoch in the word, read by the blocks
// after it. Each row is then loaded once and stored to all its places. A repeated dispatch finds the
// places in the handle.
#include "rows.cuh"
#include "tiles.cuh"
#include "protocol.cuh"

// 8 bytes a field, in the order of org.ep4j.cuda.engine.ExpandField.
struct ExpandParameters {
  Control* control;
  u64 local_experts;
  u64 top_k;
  const u32* flat_rows;     // [1]
  const u32* group_starts;  // [local_experts + 1]
  const u32* group_rows;    // [local_experts]
  u64* places;              // [flat rows, top_k] choice << 32 | row, by ascending expert; NOWHERE fills up
  u64 cached;

  // Where the rows arrived.
  const char* from_rows;
  const char* from_scales;  // null: none
  const float* from_factors;  // null: none
  const i64* from_ids;
  const float* from_weights;  // null: none
  const int* from_tokens;
  const int* from_sources;

  // Where they go.
  char* rows;
  u64 row_bytes;
  char* scales;
  u64 scale_bytes;
  float* factors;
  float* weights;
  int* tokens;
  int* sources;
  u64 limit;  // rows that fit
  u64 fill;   // 1: mark the rows from the end of the last group to the limit
  u64 zero;   // 1: clear the padding rows

  // How it runs.
  u64* group_counts;  // [blocks, local_experts]
  u64 push_warps;
  u64 stage_bytes;
  u64 timeout;
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields
};

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

// The choice of a row that is a local expert, or top_k.
__device__ __forceinline__ u32 choice_of(const ExpandParameters& p, u32 row, u32 expert) {
  u32 k = 0;
  while (k < p.top_k && p.from_ids[(u64)row * p.top_k + k] != (i64)expert) {
    k++;
  }
  return k;
}

// Marks the experts of the tile's rows.
__device__ __forceinline__ void mark_row(const ExpandParameters& p, Tiles& tiles, u32 row) {
  for (u32 k = 0; k < p.top_k; k++) {
    i64 expert = p.from_ids[(u64)row * p.top_k + k];
    if (expert >= 0) {
      tiles.mark((u32)expert);
    }
  }
}

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
    if (mine) {
      mark_row(p, tiles, row);
    }
    tiles.close();
    if (mine) {
      u64* places = p.places + (u64)row * p.top_k;
      u32 n = 0;
      for (u32 e = 0; e < p.local_experts; e++) {
        if (tiles.has(e)) {
          u32 to = base[e] + tiles.number(e);
          places[n++] = to < p.limit ? (u64)choice_of(p, row, e) << 32 | to : NOWHERE;
        }
      }
      while (n < p.top_k) {
        places[n++] = NOWHERE;
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
  for (u32 e = threadIdx.x; e < p.local_experts; e += blockDim.x) {
    store_release_gpu(&counts[e], tagged(w.epoch, base[e]));
    u32 sum = p.group_starts[e];
    for (u32 b = 0; b < blockIdx.x; b++) {
      sum += wait_tagged<false>(w, p.group_counts + (u64)b * p.local_experts + e, PHASE_BLOCKS, 0);
    }
    base[e] = sum;
  }
  __syncthreads();
}

// What goes with the rows: a warp a row.
__device__ __forceinline__ void write_companions(const ExpandParameters& p, u32 begin, u32 end) {
  u32 warps = (blockDim.x >> 5) - (u32)p.push_warps;
  for (u32 row = begin + warp_id() - (u32)p.push_warps; row < end; row += warps) {
    for (u32 i = 0; i < p.top_k; i++) {
      u64 place = p.places[(u64)row * p.top_k + i];
      if (place == NOWHERE) {
        continue;
      }
      u32 to = (u32)place;
      if (lane_id() == 0) {
        p.tokens[to] = p.from_tokens[row];
        p.sources[to] = p.from_sources[row];
        if (p.from_weights != nullptr) {
          p.weights[to] = p.from_weights[(u64)row * p.top_k + (place >> 32)];
        }
        if (p.from_factors != nullptr) {
          p.factors[to] = p.from_factors[row];
        }
      }
      if (p.from_scales != nullptr) {
        copy_bytes(p.scales + to * p.scale_bytes, p.from_scales + row * p.scale_bytes,
                   p.scale_bytes, lane_id(), 32);
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
