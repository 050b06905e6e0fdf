// Where the rows of a combine go and come from: what the host says, and what each block derives.
#pragma once
#include "begin_end.cuh"

constexpr u64 NOWHERE = ~0ull;
constexpr u32 GROUP = 4;  // rows a word

// 8 bytes a field, in the order of org.ep4j.cuda.engine.CombineField.
struct CombineParameters {
  char* const* peers;
  u64 rank;
  u64 ranks;
  u64 top_k;

  // The handle.
  u64 tokens;
  const u64* ways;     // [tokens, top_k]
  const u32* matrix;   // [ranks, ranks] rows, then [ranks] row limits, then [ranks] tokens
  const u64* places;   // EXPERT_MAJOR: [flat rows, top_k]; else null

  // Rows to combine; columns of this pass begin `column` elements into a row.
  const char* y;
  u64 hidden;   // elements of a row of y
  u64 column;
  u64 columns;
  const float* weights;  // [rows, top_k] or, EXPERT_MAJOR, [rows]; null: none

  // Results.
  char* out;           // [tokens, hidden]
  const char* bias0;   // or null
  const char* bias1;
  float* out_weights;  // [tokens, top_k]

  // Where things lie in every rank's region.
  u64 ready_offset;
  u64 groups_offset;        // u64 [ranks, group_words]
  u64 group_words;
  u64 home_offset;          // rows, `home_row_bytes` each
  u64 home_row_bytes;
  u64 home_weights_offset;  // float [rows, top_k]

  // How it runs.
  u64 push_warps;
  u64 stage_bytes;
  u64 timeout;
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields

  // Across nodes, see far.cuh; null and 0 in one node.
  const struct FarWorld* far;
  const u64* far_ways;  // [partners, far_tokens, top_k]: see DispatchParameters
  u64 far_tokens;
  u64 chunk_tokens;  // tokens that share a slot, at most 32; the same on all ranks
  u64 rounded;       // 1: what a node has for a token is summed and rounded before it travels
  u64 return_warps;  // warps that fill slots
  u64 sum_warps;     // warps that sum
  u64 inlet_bytes;   // shared memory of each of these, a multiple of 128, at least 2048

  u64 parts;  // in one node: of a token, to be summed by a warp each
};

// Rows that holder h sends to source s.
__device__ __forceinline__ u32 rows_between(const CombineParameters& p, u32 source, u32 holder) {
  u32 base = 0;
  for (u32 s = 0; s < source; s++) {
    base += p.matrix[s * p.ranks + holder];
  }
  u32 rows = p.matrix[source * p.ranks + holder];
  u32 limit = p.matrix[p.ranks * p.ranks + holder];
  return base >= limit ? 0 : min(rows, limit - base);
}

// Rows that this rank holds and sums itself are not pushed, but summed where the caller gave them. Across
// nodes those of EXPERT_MAJOR are.
__device__ __forceinline__ bool keeps_own(const CombineParameters& p) {
  return p.places == nullptr || p.far == nullptr;
}

// Whether that is so with the row of a way.
__device__ __forceinline__ bool is_given(const CombineParameters& p, u64 way) {
  return keeps_own(p) && (u32)(way >> 32) == p.rank;
}

// A row that the caller gave; an element takes `element_bytes`.
__device__ __forceinline__ const char* given_row(const CombineParameters& p, u32 row,
                                                 u32 element_bytes) {
  return p.y + (row * p.hidden + p.column) * element_bytes;
}

// EXPERT_MAJOR: lists the rows that belong to FLAT row `flat`, in ascending local expert order; their
// number. All lanes; `rows` is shared memory.
__device__ __forceinline__ int list_given_rows(const CombineParameters& p, u64 flat,
                                               u32 element_bytes, const char** rows) {
  int count = 0;
  for (u32 first = 0; first < p.top_k; first += 32) {
    u32 k = first + lane_id();
    u64 place = k < p.top_k ? p.places[flat * p.top_k + k] : NOWHERE;
    u32 mask = __ballot_sync(0xffffffff, place != NOWHERE);
    if (place != NOWHERE) {
      rows[count + __popc(mask & ((1u << lane_id()) - 1))] =
          given_row(p, (u32)place, element_bytes);
    }
    count += __popc(mask);
  }
  return count;
}

// EXPERT_MAJOR: the weight of a choice of FLAT row `flat`, 0 if no row here is of that choice.
__device__ __forceinline__ float given_weight(const CombineParameters& p, u64 flat, u32 choice) {
  float weight = 0;
  for (u32 i = 0; i < p.top_k; i++) {
    u64 place = p.places[flat * p.top_k + i];
    if (place != NOWHERE && (u32)(place >> 32) == choice) {
      weight = p.weights[(u32)place];
    }
  }
  return weight;
}

// The weights of a row, which lie at home as the rows do, or, FLAT, where they were given.
__device__ __forceinline__ const float* row_weights(const CombineParameters& p, const char* row,
                                                   u32 element_bytes) {
  const char* region = p.peers[p.rank];
  u64 at = (u64)(row - region - p.home_offset);
  if (at < p.home_weights_offset - p.home_offset) {
    return (const float*)(region + p.home_weights_offset) + at / p.home_row_bytes * p.top_k;
  }
  return p.weights + (u64)(row - p.y) / (p.hidden * element_bytes) * p.top_k;
}

// What a block knows of each rank; arrays [ranks] in shared memory. What a rank holds for itself stays
// where it is and has no place in a home region.
struct Homes {
  u32* push_first;  // first row held here that belongs to the rank
  u32* push_rows;   // how many are pushed; of this rank none
  u32* push_home;   // row of its home region where they begin
  u32* own_first;   // slot of this rank's first row there
  u32* own_home;    // row of this rank's home region where its rows begin

  static constexpr u32 ARRAYS = 5;

  // Rows that a warp adds at once: as many as it has registers for.
  static constexpr u32 ROWS = 4;

  // Ranks to which rows are pushed: as many as follow this one, which comes last itself.
  __device__ __forceinline__ u32 takers(const CombineParameters& p) const { return (u32)p.ranks - 1; }

  // The rank to whose home region the rows go, and the first of their words there.
  __device__ __forceinline__ u32 target(u32 rank) const { return rank; }
  __device__ __forceinline__ u64 words(const CombineParameters& p, u32) const {
    return p.rank * p.group_words;
  }

  __device__ __forceinline__ Homes(u32* words, u64 ranks)
      : push_first(words),
        push_rows(words + ranks),
        push_home(words + 2 * ranks),
        own_first(words + 3 * ranks),
        own_home(words + 4 * ranks) {}

  __device__ __forceinline__ void fill(const CombineParameters& p) const {
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      u32 first = 0;
      for (u32 s = 0; s < r; s++) {
        first += p.matrix[s * p.ranks + p.rank];
      }
      push_first[r] = first;
      push_rows[r] = r == p.rank ? 0 : rows_between(p, r, (u32)p.rank);
      u32 home = 0;
      for (u32 h = 0; h < p.rank; h++) {
        home += h == r ? 0 : p.matrix[r * p.ranks + h];
      }
      push_home[r] = home;
      u32 own = 0;
      for (u32 s = 0; s < p.rank; s++) {
        own += p.matrix[s * p.ranks + r];
      }
      own_first[r] = own;
      home = 0;
      for (u32 h = 0; h < r; h++) {
        home += h == p.rank ? 0 : p.matrix[p.rank * p.ranks + h];
      }
      own_home[r] = home;
    }
    __syncthreads();
  }
};

__device__ __forceinline__ u64* group_words(const CombineParameters& p, u32 rank) {
  return (u64*)(p.peers[rank] + p.groups_offset);
}

// The groups of rows that a pushing warp takes, each the next of the rank: in rounds over the ranks,
// so that at any moment all links are busy and rows come home in about the order in which they are
// summed.
template <class Homes>
struct Groups {
  static constexpr u32 ROWS = Homes::ROWS;

  const CombineParameters& p;
  const Homes& homes;
  Taken taken;
  u32 takers;  // ranks to which rows go
  u32 jobs = 0;
  u32 job = 0;
  u32 source = 0;
  u32 group = 0;

  __device__ __forceinline__ Groups(const CombineParameters& p, const Homes& homes, const Watch& w)
      : p(p), homes(homes), taken(&w.control->senders), takers(homes.takers(p)) {
    u32 most = 0;
    for (u32 r = 0; r < p.ranks; r++) {
      most = max(most, homes.push_rows[r]);
    }
    jobs = (most + GROUP - 1) / GROUP * takers;
  }

  // All lanes; false at the end, however often it is asked.
  __device__ __forceinline__ bool next() {
    do {
      job = taken.next();
      if (job >= jobs) {
        return false;
      }
      find();
    } while (group * GROUP >= homes.push_rows[source]);
    return true;
  }

  // The group of `job`.
  __device__ __forceinline__ void find() {
    group = job / takers;
    source = job - group * takers + (u32)p.rank + 1;
    source = source >= p.ranks ? source - (u32)p.ranks : source;
  }

  __device__ __forceinline__ u32 rows() const {
    return min(GROUP, homes.push_rows[source] - group * GROUP);
  }

  __device__ __forceinline__ u32 first_row() const {
    return homes.push_first[source] + group * GROUP;
  }

  __device__ __forceinline__ u64 home_row() const { return homes.push_home[source] + group * GROUP; }

  __device__ __forceinline__ u32 target() const { return homes.target(source); }

  __device__ __forceinline__ u64* word() const {
    return group_words(p, target()) + homes.words(p, source) + group;
  }
};
