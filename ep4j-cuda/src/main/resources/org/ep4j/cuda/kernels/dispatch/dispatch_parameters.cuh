// Parameters of a dispatch; 8 bytes a field, in the order of org.ep4j.cuda.engine.launch.DispatchField.
#pragma once
#include "common/kernel_lifecycle.cuh"

struct DispatchParameters {
  // The world.
  char* const* peers;  // [ranks] start of each rank's region; null: the rank is missing
  u64 rank;
  u64 ranks;
  u64 experts;
  u64 local_experts;
  const u32* placement;  // [experts] rank << 16 | local number; rank 0xffff: missing

  // The routing of this rank's tokens.
  u64 tokens;
  u64 top_k;
  const void* ids;  // [tokens, top_k]
  u64 wide_ids;     // 1: INT64, 0: INT32
  const float* weights;  // [tokens, top_k] or null

  // The payload.
  const char* x;
  u64 row_bytes;
  const char* scales;  // null: none
  u64 scale_bytes;     // a row
  const float* factors;  // null: none

  // The handle: written by a dispatch, read by a cached one.
  u64* routes;    // [tokens, top_k] rank << 32 | slot, ascending, padded with NO_ROUTE
  u32* lists;   // FLAT: [ranks, tokens] tokens that go to each rank
  u32* matrix;  // [ranks, ranks] rows from each rank to each rank, then [ranks] row limits, then
                // [ranks] tokens
  u32* flat_rows;     // FLAT: [1] rows that arrived
  u32* group_starts;  // [local_experts + 1] first row of each expert's group
  u32* group_rows;    // [local_experts]
  u32* targets;       // EXPERT_MAJOR: [tokens, top_k] first row at the rank of the route, or NO_ROW
  u64* slot_rows;        // EXPERT_MAJOR: [slots, top_k] choice << 32 | row of the rows that arrive
                         // here, ascending, padded with NO_ROUTE
  u64 cached;

  // Offsets in every rank's region.
  u64 ready_offset;   // u64 [ranks]
  u64 done_offset;    // u64 [ranks]
  u64 counts_offset;  // u64 [ranks, ranks + experts + 3]
  u64 rows_offset;
  u64 scales_offset;
  u64 factors_offset;
  u64 ids_offset;  // FLAT
  u64 weights_offset;
  u64 tokens_offset;
  u64 sources_offset;
  u64 arrivals_offset;  // EXPERT_MAJOR: u64 [receive_slots]
  u64 metadata_offset;   // EXPERT_MAJOR: [receive_slots] of metadata_bytes

  // Sizes.
  u64 limit;         // rows that this rank accepts
  u64 receive_slots;  // EXPERT_MAJOR: slots of a rank, equal on all ranks
  u64 metadata_bytes;  // EXPERT_MAJOR: equal on all ranks
  u64 alignment;
  u64 fill;  // 1: mark the rows without a token, up to `limit`
  u64 zero;  // EXPERT_MAJOR, 1: clear the rows that pad the groups

  // Execution.
  u64* block_counts;  // [blocks, ranks + experts] in this rank's memory
  u64* entries;       // EXPERT_MAJOR: [tokens, top_k] rank << 32 | row of each choice, or NO_ROUTE
  const u32* order;   // EXPERT_MAJOR: [ranks + 1] start of each rank's experts in the list that
                      // follows, then that list: experts by rank and local number
  u64 tile_warps;     // EXPERT_MAJOR: warps that count tokens
  u64 push_blocks;    // the first blocks, which send tokens; FLAT: all blocks
  u64 push_warps;
  u64 eager;          // EXPERT_MAJOR, 1: store a piece only after the previous piece has been
                      // written
  u64 stage_bytes;
  u64 timeout;  // ns
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields

  // Results for the host, in mapped host memory.
  u64 counts_ticket;    // written last: the other fields are complete
  u64* totals;          // see Total
  u64* rank_offsets;    // [ranks + 1]
  u64* expert_offsets;  // [local_experts + 1]
  u32* received;        // [local_experts]
  u32* aligned;         // [local_experts]

  // Internode, see internode.cuh; null and 0 within one node.
  const u32* node_of;  // [ranks]; NO_NODE: the rank is missing
  const struct InternodeWorld* internode;
  u64* internode_routes;      // the handle: [partners, internode_tokens, top_k] routes within this
                              // node of the tokens that this rank forwards; NO_ROUTE in between
  u64 internode_tokens;     // maximum tokens of a rank
  u64 chunk_tokens;   // tokens whose rows share a slot, at most 32; equal on all ranks
  u64 fill_warps;     // warps that fill slots
  u64 forward_warps;  // warps that forward the rows of slots
};

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

// Counters of rank `source` in the region of rank `at`.
__device__ __forceinline__ u64* counts_of(const DispatchParameters& p, u32 at, u32 source) {
  return (u64*)(p.peers[at] + p.counts_offset) + source * count_words(p);
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
