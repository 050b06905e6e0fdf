// Low-latency operations: what the host tells them, and the words that ranks share.
//
// Operations are numbered 1, 2, 3, ... on all ranks alike, dispatches and combines together. The
// number is counted here, in `LowLatencyState`, so that graphs can be replayed. Each rank has a part that its
// peers write into. In it there are areas, one for odd and one for even numbers unless ranks have
// been masked; all words that peers write carry the number, so nothing is ever cleared.
//
// Area of rank d, written by rank s over NVLink, read by d:
//   headers[s]        number | what s dispatches: kind, choices, tokens. One word, needs no order.
//   counts[s][l]      number | rows of s for local expert l; by ranks the last one has all rows of s.
//                     The same.
//   entries[s][t][k]  number | what choice k of token t means to d: local expert and how many rows of
//                     s for it (by ranks: for d) come before, or NO_ENTRY. The same. In a combine of
//                     partial sums: number | weight of the choice, or NO_WEIGHT.
//   weights[s][t][k]  number | weight of that choice, for d's own experts only; awaited for those. By
//                     ranks, if weights are dispatched. The same.
//   lines             [s][t], one row a token, however many experts it is for, with numbers among the
//                     values: see ll_packets.cuh. Combine: one row a holder s of d's token t.
//   rows              combine: [t][k]. Without lines those rows, too.
//   flags             number, written with release once a piece of a row is there, read with acquire.
//                     combine: [t][piece][k]; without lines [t][piece][s], dispatch: [s][t][piece]
// d waits for all that s writes there before it has received the operation.
//
// In the part of rank d, by rank s:
//   received[s]       s has received all operations up to this number, and in which of its areas d
//                     may write in the two that follow; see `Grant`. Written relaxed once all reads
//                     have returned what they read, so that no write can come before them; awaited
//                     by operation number + 2, with acquire or, from another node, relaxed in front
//                     of a fence. A rank can be two operations ahead of another, never three.
//
// Rows are delivered by local experts or, compiled with EP4J_RANK_MAJOR, by source ranks; see
// org.ep4j.RowLayout. All that differs stands behind RANK_MAJOR.
//
// Compiled with EP4J_INTERNODE, some ranks belong to other nodes. Each rank has a second part then, in
// page-locked memory of its host, laid out like the first: its far part. Ranks of other nodes write
// there (EP4J_INTERNODE_MAPPED), or a wire does (EP4J_INTERNODE_PUTS); see low_latency_internode.cuh.
//
// A piece is what one warp moves at a time: 1024 values. Every warp works for itself, but for those of
// a block that tell or learn the routing; blocks meet only where the last one counts the operation.
//
// Ranks that do not answer within the deadline are masked where the host wants that: the wait marks
// them, everybody leaves them out, and the last block receives once more without them. A masked rank
// may be alive and go on as if nothing had happened, at any time. It is told nothing any more, so it
// can still write in the areas that it was told of last, for operations up to `acknowledged` + 2. d gives its
// peers no area for another operation while that may happen: until the masked rank's `sent` says that
// it has ended what belonged there, or the host says that it is dead, and evicted (protocol.cuh). For this
// there are four areas where ranks can be masked. If they are not enough the operation fails.
#pragma once
#include "kernel_lifecycle.cuh"
#include "low_latency_group_sizes.cuh"
#include "low_latency_constants.cuh"

#ifndef EP4J_RANK_MAJOR
#define EP4J_RANK_MAJOR 0
#endif
#define EP4J_INTERNODE_NONE 0
#define EP4J_INTERNODE_MAPPED 1
#define EP4J_INTERNODE_PUTS 2
#ifndef EP4J_INTERNODE
#define EP4J_INTERNODE EP4J_INTERNODE_NONE
#endif

constexpr bool RANK_MAJOR = EP4J_RANK_MAJOR;
constexpr bool INTERNODE = EP4J_INTERNODE != EP4J_INTERNODE_NONE;
constexpr bool MAPPED = EP4J_INTERNODE == EP4J_INTERNODE_MAPPED;
constexpr bool PUTS = EP4J_INTERNODE == EP4J_INTERNODE_PUTS;
constexpr u64 KIND_WEIGHTED = 16;      // bit of a kind: weights are dispatched, by ranks
constexpr u32 WARPS = 16;
constexpr u32 PIECE = 1024;            // values
constexpr u32 VECTORS = PIECE / 256;   // of 8 values a lane
constexpr u32 NO_ENTRY = 0xffffffff;
constexpr u32 NO_WEIGHT = 0xffffffff;  // a NaN that no weight is told as
constexpr u32 MAX_AREAS = 4;          // where ranks can be masked; else 2
constexpr u32 NO_RANK = 0xffff;         // rank of an expert that is on no rank
constexpr u64 LOW_LATENCY = 1ull << 62;  // in epochs of the record: a number of this file

enum LowLatencyPhases { SENDING = 1, RECEIVING = 2 };

// At the start of a rank's part; written by kernels of this GPU alone, one kernel at a time.
struct LowLatencyState {
  u64 sent;      // number of the last operation sent: last block; with masks release, see above
  u64 received;  // number of the last operation received: last block
  u64 again;     // number of an operation whose receipt must be repeated, because a rank was masked
  u64 used[MAX_AREAS];  // number of the last operation received in each area: with masks, last block
  u64 unused;
};

// What a rank tells its peers once it has received an operation: its number, and the areas for the
// next two. They are the number's parity, changed by two bits each, so that a word without any means
// the areas 0 and 1 in turn.
struct Grant {
  u64 word;

  static __device__ __forceinline__ Grant of(u64 number, u64 next, u64 after) {
    return Grant{number << 4 | (next ^ (number + 1 & 1)) << 2 | (after ^ (number & 1))};
  }

  __device__ __forceinline__ u64 number() const { return word >> 4; }

  __device__ __forceinline__ u64 area(u64 operation) const {
    return (word >> (operation == number() + 1 ? 2 : 0) & 3) ^ (operation & 1);
  }
};

struct LowLatencyPuts;

// 8 bytes a field, in the order of org.ep4j.cuda.engine.LowLatencyField.
struct LowLatencyParameters {
  // The world.
  char* const* peers;  // [ranks] where each rank's part lies; null: the rank is gone
  char* own;           // the one of this rank
  u64 rank;
  Specialized<EP4J_RANKS> ranks;
  Specialized<EP4J_EXPERTS> experts;
  u64 local_experts;
  const u32* placement;  // [experts] rank << 16 | local number; rank 0xffff: gone

  // The shape of the buffer.
  Specialized<EP4J_HIDDEN> hidden;
  u64 max_tokens;
  Specialized<EP4J_CHOICES> max_choices;

  // Where things lie in every rank's part; each area is `area_bytes` behind the one before.
  u64 received_offset;  // u64 [ranks]
  u64 headers_offset;   // u64 [ranks]
  u64 counts_offset;    // u64 [ranks, count_stride]
  u64 count_stride;
  u64 entries_offset;   // u64 [ranks, max_tokens, max_choices]
  u64 weights_offset;   // the same
  u64 flags_offset;     // u64 [max_tokens, pieces, flag_stride]
  u64 flag_stride;
  u64 rows_offset;      // 2 * hidden bytes each
  u64 packets_offset;     // packet_bytes(VECTORS) for [ranks, max_tokens, pieces]
  u64 area_bytes;

  // The operation.
  u64 phases;
  u64 kind;  // of the rows, the same on all ranks; see org.ep4j.cuda.engine.LowLatencyKind
  u64 tokens;
  u64 top_k;
  const void* ids;       // [tokens, top_k]
  u64 wide_ids;          // 1: INT64, 0: INT32
  const float* weights;  // [tokens, top_k]; a dispatch by experts, a combine by ranks: null
  const char* x;         // BF16: the tokens' rows, or the experts'
  u64 row_bytes;         // dispatch: values of a row as it travels
  u64 scale_bytes;       // and its scales, behind them
  u64 scale_kind;        // as org.ep4j.ScaleKind
  u64 global_scale;      // bits of a float

  // What a dispatch leaves for its combine.
  u32* choice_rows;   // [ranks, max_tokens, max_choices] row of each choice here, or NO_ENTRY
  u32* batches;  // [ranks] choices << 16 | tokens of each source
  u64* choices;  // [max_tokens, max_choices] see pack_choice

  // Results. By ranks: [ranks, max_tokens] in place of [local_experts, ranks * max_tokens].
  char* rows;          // dispatch: [local_experts, ranks * max_tokens] rows
  char* scales;        // the same, or [local_experts, columns, scale_columns]
  u64 scale_columns;   // 0: scales by rows; else the length of a column
  int* source_tokens;  // [local_experts, ranks * max_tokens]
  i64* row_choices;    // by ranks: [ranks, max_tokens, top_k] local experts, or -1
  float* row_weights;  // their weights, or 0
  u64* ranges;         // [local_experts, ranks] first row << 32 | rows; by ranks [ranks]
  int* row_counts;     // [local_experts], or [ranks]
  int* cumulative;     // [local_experts] grows by the rows; or null
  char* out;           // combine: BF16 [tokens, hidden]
  u64* waits;          // [ranks] grows by the nanoseconds waited; or null

  // How it runs.
  Control* control;
  u64* masks;       // [ranks] 1: masked
  u64* waited;      // [ranks] longest wait of the operation so far
  u64* acknowledged;        // [ranks] last number that each rank has been told was received here
  Specialized<EP4J_MASKING, 2> masking;  // 1: late ranks are masked
  u64* host_masks;  // the same as masks, in mapped host memory, for the host to read
  const u64* host_gone;  // [ranks] mapped host memory: not 0 once a rank that died is evicted
  u64 tile_tokens;  // dispatch: tokens whose routing is told at once, as shared memory allows
  u64 timeout;      // ns
  Record* record;
  const u64* host_abort;
  Receipt receipt;  // two fields

  // Compiled with EP4J_INTERNODE; else nothing.
  char* internode_part;         // the far part of this rank
  u64 node_first;    // the first rank of this node
  u64 node_ranks;    // and how many they are
  u64 source_bytes;  // from the words of a source to those of the next
  u64 packed_offset;  // u64 [max_tokens, even number of pieces] among the words of a source
  const LowLatencyPuts* puts;  // puts
  u64* internode_state;  // [ranks], then [GROUPS, UNITS]; see low_latency_internode.cuh
};

__device__ __forceinline__ u32 pieces_of(const LowLatencyParameters& p) {
  return ((u32)p.hidden + PIECE - 1) / PIECE;
}

__device__ __forceinline__ u32 even_pieces_of(const LowLatencyParameters& p) {
  return (pieces_of(p) + 1) / 2 * 2;
}

// The rows that each local expert has room for, or each source by ranks.
__device__ __forceinline__ u32 capacity_of(const LowLatencyParameters& p) {
  return (u32)(RANK_MAJOR ? p.max_tokens : p.ranks * p.max_tokens);
}

// A choice as its combine will ask for it: the rank that holds its row, or NOBODY, and the expert.
__device__ __forceinline__ u64 pack_choice(u32 holder, i64 expert) { return (u64)holder << 32 | (u32)expert; }
__device__ __forceinline__ u32 choice_holder(u64 choice) { return (u32)(choice >> 32); }
__device__ __forceinline__ i64 choice_expert(u64 choice) { return (int)choice; }

// An operation as one thread sees it. Functions that take an area find things in that of a rank.
struct Operation {
  const LowLatencyParameters& p;
  WaitContext wait;
  u64 number;
  Grant last_grant;  // what this rank has told last, itself like the others
  char* own;   // area of this rank

  __device__ __forceinline__ bool is_internode(u32 rank) const {
    return INTERNODE && rank - (u32)p.node_first >= (u32)p.node_ranks;
  }

  __device__ __forceinline__ bool uses_puts(u32 rank) const { return PUTS && is_internode(rank); }

  // Whether rows between a rank and this one are told by groups, not by flags.
  __device__ __forceinline__ bool uses_groups(u32 rank) const { return MAPPED || uses_puts(rank); }

  // What `own` is in the part that a rank writes into: this rank's part itself, or an area of it.
  __device__ __forceinline__ char* written_by(u32 rank, char* own, char* internode_part) const {
    return is_internode(rank) ? internode_part : own;
  }

  // The area of this rank that another writes into.
  __device__ __forceinline__ char* from(u32 rank) const {
    return written_by(rank, own, p.internode_part + (own - p.own));
  }

  __device__ __forceinline__ LowLatencyState* state() const { return (LowLatencyState*)p.own; }

  __device__ __forceinline__ u64* received(char* part, u32 by) const {
    return (u64*)(part + p.received_offset) + by;
  }

  __device__ __forceinline__ u64* header(char* area, u32 source) const {
    return source_words(area + p.headers_offset, source, 1);
  }

  __device__ __forceinline__ u64* counts(char* area, u32 source) const {
    return source_words(area + p.counts_offset, source, p.count_stride);
  }

  __device__ __forceinline__ u64* entries(char* area, u32 source, u32 token) const {
    return tokens_of(area + p.entries_offset, source, token);
  }

  __device__ __forceinline__ u64* weights(char* area, u32 source, u32 token) const {
    return tokens_of(area + p.weights_offset, source, token);
  }

  // Told with groups: bit k of a piece's word: choice k is LogFMT. Its pushing warp writes it; read as rows are.
  __device__ __forceinline__ u64* packed(char* area, u32 holder, u32 token, u32 piece) const {
    return (u64*)(area + p.packed_offset + holder * p.source_bytes) +
           (u64)token * even_pieces_of(p) + piece;
  }

  // Flag of a piece of row [source][token].
  __device__ __forceinline__ u64* row_flag(char* area, u32 source, u32 token, u32 piece) const {
    return (u64*)(area + p.flags_offset) +
           ((u64)source * p.max_tokens + token) * pieces_of(p) + piece;
  }

  // Flags of a piece of the rows that come home for a token.
  __device__ __forceinline__ u64* return_flags(char* area, u32 token, u32 piece) const {
    return (u64*)(area + p.flags_offset) + ((u64)token * pieces_of(p) + piece) * p.flag_stride;
  }

  __device__ __forceinline__ char* row(char* area, u64 slot) const {
    return area + p.rows_offset + slot * 2 * p.hidden;
  }

  // A token's slot if there is one row a source and token.
  __device__ __forceinline__ u64 token_slot(u32 source, u32 token) const {
    return (u64)source * p.max_tokens + token;
  }

  // A choice's slot if every choice has a row.
  __device__ __forceinline__ u64 choice_slot(u32 token, u32 k) const {
    return (u64)token * p.max_choices + k;
  }

 private:
  // With several nodes all words of one source lie together: the wire carries them at once.
  __device__ __forceinline__ u64* source_words(char* at, u32 source, u64 each) const {
    return INTERNODE ? (u64*)(at + source * p.source_bytes) : (u64*)at + source * each;
  }

  __device__ __forceinline__ u64* tokens_of(char* at, u32 source, u32 token) const {
    return INTERNODE ? source_words(at, source, 0) + (u64)token * p.max_choices
                : (u64*)at + ((u64)source * p.max_tokens + token) * p.max_choices;
  }
};
