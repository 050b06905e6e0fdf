// Parameters of a dispatch (org.ep4j.cuda.struct.DispatchParameters), and what they stand for.
#pragma once
#include "common/kernel_lifecycle.cuh"
#include "common/row_matrix.cuh"
#include "structs/dispatch_parameters.cuh"

// Words of `totals`; the ticket is written last.
enum Total {
  TOTAL_TICKET,
  TOTAL_NEEDED,
  TOTAL_RECEIVED,
  TOTAL_OVERFLOW_RANK,  // = ranks: none
  TOTAL_OVERFLOW_NEEDED,
  TOTAL_OVERFLOW_LIMIT
};

constexpr u64 NO_ROUTE = ~0ull;
constexpr u32 NO_ROW = ~0u;

template <class Parameters>
__device__ __forceinline__ bool is_live(const Parameters& p, u32 rank) {
  return p.peers[rank] != nullptr;
}

// The rank that writes here what a rank has sent: itself, or, if it is on another node, NO_WRITER.
__device__ __forceinline__ u64 writer_for(const DispatchParameters& p, u32 source) {
  return is_live(p, source) ? source : NO_WRITER;
}

// Whether a rank publishes counts: it is live, perhaps on another node.
__device__ __forceinline__ bool publishes_counts(const DispatchParameters& p, u32 rank) {
  return is_live(p, rank) || (p.node_of != nullptr && p.node_of[rank] != ~0u);
}

__device__ __forceinline__ u64 pack_route(u32 rank, u32 slot) { return (u64)rank << 32 | slot; }
__device__ __forceinline__ u32 route_rank(u64 route) { return route >> 32; }
__device__ __forceinline__ u32 route_slot(u64 route) { return (u32)route; }

template <class Parameters>
__device__ __forceinline__ i64 expert_of(const Parameters& p, u64 at) {
  return p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
}

// Counters that a rank publishes: rows to each rank, pairs of each expert, its row limit, the
// alignment of its groups, its tokens.
__device__ __forceinline__ u32 limit_word(const DispatchParameters& p) {
  return (u32)(p.ranks + p.experts);
}
__device__ __forceinline__ u32 alignment_word(const DispatchParameters& p) {
  return limit_word(p) + 1;
}
__device__ __forceinline__ u32 tokens_word(const DispatchParameters& p) {
  return limit_word(p) + 2;
}
__device__ __forceinline__ u32 count_words(const DispatchParameters& p) { return limit_word(p) + 3; }

// Counters of rank `source` in a region, or in that of rank `at`.
__device__ __forceinline__ u64* counts_in(const DispatchParameters& p, char* region, u32 source) {
  return (u64*)(region + p.counts_offset) + source * count_words(p);
}
__device__ __forceinline__ u64* counts_of(const DispatchParameters& p, u32 at, u32 source) {
  return counts_in(p, p.peers[at], source);
}

// Counter `i` of rank `source`; 0 if the rank is missing.
__device__ __forceinline__ u32 wait_count(const DispatchParameters& p, const WaitContext& w, u32 source,
                                          u32 i, bool witness = false) {
  return !publishes_counts(p, source) ? 0
         : wait_tagged(w, &counts_of(p, p.rank, source)[i], PHASE_COUNTS, source, writer_for(p, source), witness);
}

// The same for a word that was loaded before. The words of a missing rank are of earlier epochs.
__device__ __forceinline__ u32 count_of(const DispatchParameters& p, const WaitContext& w, u32 source,
                                        u32 i, u64 seen, bool witness = false) {
  return tag_is(seen, w.epoch) ? (u32)seen : wait_count(p, w, source, i, witness);
}

// The words that show a dispatch which ranks of this node have entered.
struct IntranodeEntrySignals {
  const DispatchParameters& p;

  __device__ __forceinline__ EntrySignals operator()() const {
    u64 counts = p.cached ? 0 : p.counts_offset;
    return EntrySignals{p.peers, p.rank, p.ranks, p.ready_offset, counts, count_words(p), nullptr, 0, nullptr, nullptr};
  }
};

// Target filters: the ranks to which rows are pushed. select(route) is the route if its rank is one
// of them, else NO_ROUTE.
struct AllRanks {
  __device__ __forceinline__ u64 select(u64 route) const { return route; }
};

struct RanksOfNode {
  u32 first;
  u32 end;

  __device__ __forceinline__ u64 select(u64 route) const {
    u32 rank = route_rank(route);
    return rank >= first && rank < end ? route : NO_ROUTE;
  }
};
