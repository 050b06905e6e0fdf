// The caller's rows to combine, their weights, and the source and destination of each row, as each
// block derives them from the handle.
#pragma once
#include "combine/combine_parameters.cuh"
#include "common/batched_loads.cuh"

// Whether rows that this rank both holds and sums are summed in the caller's memory instead of
// being pushed. Exception: internode EXPERT_MAJOR pushes them.
__device__ __forceinline__ bool sums_in_place(const CombineParameters& p) {
  return p.slot_rows == nullptr || p.internode == nullptr;
}

// Whether this applies to the row of a route.
__device__ __forceinline__ bool is_local_input(const CombineParameters& p, u64 route) {
  return sums_in_place(p) && (u32)(route >> 32) == p.rank;
}

// A row of the caller; an element has `element_bytes`.
__device__ __forceinline__ const char* input_row(const CombineParameters& p, u32 row,
                                                 u32 element_bytes) {
  return p.y + (row * p.hidden + p.column) * element_bytes;
}

// EXPERT_MAJOR: lists the rows of FLAT row `flat`, and the weights to apply, in ascending local
// expert order; returns their number. All lanes; `rows` and `weights` are shared memory.
__device__ __forceinline__ int list_input_rows(const CombineParameters& p, u64 flat,
                                               u32 element_bytes, const char** rows,
                                               float* weights) {
  int count = 0;
  for (u32 first = 0; first < p.top_k; first += 32) {
    u32 k = first + lane_id();
    u64 slot_row = k < p.top_k ? p.slot_rows[flat * p.top_k + k] : NO_ROUTE;
    float weight = 0;
    if (APPLIES_WEIGHTS && k < p.top_k) {
      weight = p.slot_weights[flat * p.top_k + k];
    }
    u32 mask = __ballot_sync(0xffffffff, slot_row != NO_ROUTE);
    if (slot_row != NO_ROUTE) {
      u32 at = count + __popc(mask & ((1u << lane_id()) - 1));
      rows[at] = input_row(p, (u32)slot_row, element_bytes);
      if (APPLIES_WEIGHTS) {
        weights[at] = weight;
      }
    }
    count += __popc(mask);
  }
  return count;
}

// EXPERT_MAJOR: the weight of a choice of FLAT row `flat`; 0 if no row here is of that choice.
__device__ __forceinline__ float input_weight(const CombineParameters& p, u64 flat, u32 choice) {
  float weight = 0;
  for (u32 i = 0; i < p.top_k; i++) {
    u64 slot_row = p.slot_rows[flat * p.top_k + i];
    if (slot_row != NO_ROUTE && (u32)(slot_row >> 32) == choice) {
      weight = p.weights[(u32)slot_row];
    }
  }
  return weight;
}

// The weights of a row: in the return buffer if the row is there, else (FLAT) in the caller's
// memory.
__device__ __forceinline__ const float* row_weights(const CombineParameters& p, const char* row,
                                                   u32 element_bytes) {
  const char* region = p.peers[p.rank];
  u64 at = (u64)(row - region - p.return_offset);
  if (at < p.return_weights_offset - p.return_offset) {
    return (const float*)(region + p.return_weights_offset) + at / p.return_row_bytes * p.top_k;
  }
  return p.weights + (u64)(row - p.y) / (p.hidden * element_bytes) * p.top_k;
}

constexpr u32 GROUP = 4;  // rows a word

// Rows of a run that a holder has accepted: `rows` from slot `first` on.
__device__ __forceinline__ u32 accepted_rows(u32 first, u32 rows, u32 limit) {
  return first >= limit ? 0 : min(rows, limit - first);
}

// A block's rows for each rank; arrays [ranks] in shared memory. Rows that a rank holds for itself
// stay in the caller's memory and have no place in a return buffer.
struct ReturnLayout {
  u32* push_first;  // first row held here that belongs to the rank
  u32* push_rows;   // number of rows to push; 0 for this rank
  u32* push_return_row;   // first of these rows in the rank's return buffer
  u32* own_first;   // slot of this rank's first row there
  u32* own_return_row;    // first row of that rank's rows in this rank's return buffer

  // This rank's region. In a register: every acquire empties the first-level cache, which would
  // hold the table of the regions.
  char* region;

  static constexpr u32 ARRAYS = 5;

  // Rows that a warp adds at a time; bounded by registers.
  static constexpr u32 ROWS = 4;

  // The first warp of block 0, which pushes and then sums, witnesses both waits.
  static constexpr bool WITNESSES_ENTRIES = true;

  // Number of ranks to which rows are pushed: all but this one, starting with the next rank.
  __device__ __forceinline__ u32 receivers(const CombineParameters& p) const { return (u32)p.ranks - 1; }

  // The rank whose return buffer receives the rows, and the first of their words there.
  __device__ __forceinline__ u32 target(u32 rank) const { return rank; }
  __device__ __forceinline__ u64 words(const CombineParameters& p, u32) const {
    return p.rank * p.group_words;
  }

  __device__ __forceinline__ ReturnLayout(const CombineParameters& p, char* shared)
      : push_first((u32*)shared),
        push_rows(push_first + p.ranks),
        push_return_row(push_first + 2 * p.ranks),
        own_first(push_first + 3 * p.ranks),
        own_return_row(push_first + 4 * p.ranks),
        region(p.peers[p.rank]) {}

  // All threads; one warp each takes the two sums over ranks.
  __device__ __forceinline__ void fill(const CombineParameters& p) const {
    const u32* matrix = p.matrix;
    u32 ranks = (u32)p.ranks;
    u32 me = (u32)p.rank;
    for (u32 r = threadIdx.x; r < ranks; r += blockDim.x) {
      own_first[r] = matrix_row(p, ROW_BEFORE)[r];
      push_return_row[r] = matrix_row(p, ROW_RETURNS)[r];
    }
    // Orders nothing. Without it nvcc 13.0 checks for divergence in the adding loop of pulls, which are in the same
    // kernel (combine.cu), and they take 4 to 9 % longer.
    __syncthreads();
    u32 warps = blockDim.x >> 5;
    if (warp_id() == warps - 1) {
      u32 limit = matrix_row(p, ROW_LIMITS)[me];
      scan_loaded(
          ranks, [&](u32 s) { return matrix[s * ranks + me]; },
          [&](u32 s, u32 before, u32 rows) {
            push_first[s] = before;
            push_rows[s] = s == me ? 0 : accepted_rows(before, rows, limit);
          });
    }
    if (warp_id() == warps / 2) {
      scan_loaded(
          ranks, [&](u32 h) { return h == me ? 0 : matrix[me * ranks + h]; },
          [&](u32 h, u32 before, u32) { own_return_row[h] = before; });
    }
    __syncthreads();
  }
};

__device__ __forceinline__ u64* group_words(const CombineParameters& p, u32 rank) {
  return (u64*)(p.peers[rank] + p.groups_offset);
}

// The groups of rows that a pushing warp takes, each the next of the rank: round robin over the
// ranks, so that at any moment all links are busy and rows arrive in about the order in which they
// are summed.
template <class ReturnLayout>
struct RowGroups {
  static constexpr u32 ROWS = ReturnLayout::ROWS;
  static constexpr bool WITNESSES_ENTRIES = ReturnLayout::WITNESSES_ENTRIES;

  const CombineParameters& p;
  const ReturnLayout& return_layout;
  WorkCounter taken;
  u32 receivers;  // number of ranks to which rows are pushed
  u32 jobs = 0;
  u32 job = 0;
  u32 source = 0;
  u32 group = 0;

  // All lanes.
  __device__ __forceinline__ RowGroups(const CombineParameters& p, const ReturnLayout& return_layout, const WaitContext& w)
      : p(p), return_layout(return_layout), taken(&w.control->senders), receivers(return_layout.receivers(p)) {
    u32 largest = largest_of(return_layout.push_rows, (u32)p.ranks);
    jobs = (largest + GROUP - 1) / GROUP * receivers;
  }

  // All lanes; false at the end, also when called again.
  __device__ __forceinline__ bool next() {
    do {
      job = taken.next();
      if (job >= jobs) {
        return false;
      }
      find();
    } while (group * GROUP >= return_layout.push_rows[source]);
    return true;
  }

  // Sets the group of `job`.
  __device__ __forceinline__ void find() {
    group = job / receivers;
    source = job - group * receivers + (u32)p.rank + 1;
    source = source >= p.ranks ? source - (u32)p.ranks : source;
  }

  __device__ __forceinline__ u32 rows() const {
    return min(GROUP, return_layout.push_rows[source] - group * GROUP);
  }

  __device__ __forceinline__ u32 first_row() const {
    return return_layout.push_first[source] + group * GROUP;
  }

  __device__ __forceinline__ u64 return_row() const { return return_layout.push_return_row[source] + group * GROUP; }

  __device__ __forceinline__ u32 target() const { return return_layout.target(source); }

  __device__ __forceinline__ u64* word() const {
    return group_words(p, target()) + return_layout.words(p, source) + group;
  }
};
