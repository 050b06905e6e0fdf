// Low-latency operations: parameters (org.ep4j.cuda.struct.LowLatencyParameters), and the words that
// ranks share.
//
// All ranks number operations 1, 2, 3, ... alike, dispatches and combines together.
// `LowLatencyState` counts the number on the GPU, so that graphs can be replayed. Each rank has a
// part that its peers write into. The part has areas, one for odd and one for even numbers unless
// ranks have been masked. All words that peers write carry the number, so no word is ever cleared.
//
// Area of rank d; writer: rank s over NVLink; reader: d:
//   headers[s]        number | what s dispatches: kind, choices, tokens. One word, needs no order.
//   counts[s][l]      number | blocks of a row of s | rows of s for local expert l; RANK_MAJOR: the last one
//                     has all rows of s. The same.
//   entries[s][t][k]  number | choice k of token t for d: local expert and number of earlier rows of s for
//                     that expert (RANK_MAJOR: for d), or NO_ENTRY. The same. Combine of partial sums:
//                     number | weight of the choice, or NO_WEIGHT.
//   weights[s][t][k]  number | weight of that choice, only for d's own experts; d waits for those.
//                     RANK_MAJOR and compiled with EP4J_WEIGHTED, if weights are dispatched. The same.
//   packets           [s][t], one row a token, however many experts it is for, with numbers among the
//                     values: see ll_packets.cuh. Combine: one row a holder s of d's token t.
//   rows              combine: [t][k]. Without packets those rows, too.
//   flags             number. Writer: release, after a piece of a row; waiter: acquire. Combine:
//                     [t][piece][k]; without packets combine [t][piece][s], dispatch [s][t][piece].
// d has received the operation once it has waited for all that s writes there.
//
// In the part of rank d, by rank s:
//   received[s]       s has received all operations up to this number; plus the areas of s that d may
//                     write in the next two; see `Grant`. Written relaxed once all reads have returned
//                     their values, so no write can precede them. Waiter: operation number + 2 of d,
//                     acquire; for another node, relaxed in front of a fence. So a rank can be two
//                     operations ahead of another, never three.
//
// Rows are delivered by local experts or, compiled with EP4J_RANK_MAJOR, by source ranks; see
// org.ep4j.config.Layout. All differences depend on RANK_MAJOR.
//
// Compiled with EP4J_INTERNODE, some ranks are on other nodes, and each rank has a second part of
// the same layout in page-locked host memory: the internode part. Writers: ranks of other nodes
// (EP4J_INTERNODE_MAPPED) or a wire (EP4J_INTERNODE_PUTS); see low_latency_internode.cuh.
//
// Operations may have rows of any length up to that for which the parts are laid out. Rows, packets
// and flags lie as close as the length of the operation allows. The place of a number holds only
// numbers at any length, so numbers of other operations are older ones.
//
// A piece is the unit of work of a warp: 1024 values. Warps work independently, except while a
// block publishes or reads the routing; blocks synchronize only where the last one ends.
//
// Masking: on request of the host, a rank that does not answer by the deadline is masked. The wait
// sets its mask, all warps skip it, and the last block repeats the receipt without it. A masked
// rank may be alive and resume at any time. It gets no more acknowledgements, so it can still write
// into the areas of its last grant, for operations up to `acknowledged` + 2. d grants no such area
// to its peers for another operation until the masked rank's `sent` shows that it has ended the
// operations that belonged there, or until the host reports that it is dead and fenced
// (protocol.cuh). So there are four areas if ranks can be masked; if all are in use, the operation fails.
//
// Internode, a masked rank cannot be fenced, and what it has given to a wire may arrive at any time.
// So the internode part has two areas, and each writer has a share of their rows for itself: a late
// writer changes only what it alone writes, which this rank does not read until all ranks begin
// anew (org.ep4j.cuda.engine.Recovery). For the same reason a rank puts rows for each internode rank
// from memory of that rank: the wire may read them late.
#pragma once
#include "common/kernel_lifecycle.cuh"
#include "lowlatency/low_latency_group_sizes.cuh"
#include "common/specialized.cuh"
#include "structs/low_latency_parameters.cuh"

#ifndef EP4J_RANK_MAJOR
#define EP4J_RANK_MAJOR 0
#endif
#ifndef EP4J_WEIGHTED
#define EP4J_WEIGHTED 0
#endif
#define EP4J_INTERNODE_NONE 0
#define EP4J_INTERNODE_MAPPED 1
#define EP4J_INTERNODE_PUTS 2
#ifndef EP4J_INTERNODE
#define EP4J_INTERNODE EP4J_INTERNODE_NONE
#endif

constexpr bool RANK_MAJOR = EP4J_RANK_MAJOR;
constexpr bool DELIVERS_WEIGHTS = EP4J_RANK_MAJOR || EP4J_WEIGHTED;
constexpr bool INTERNODE = EP4J_INTERNODE != EP4J_INTERNODE_NONE;
constexpr bool MAPPED = EP4J_INTERNODE == EP4J_INTERNODE_MAPPED;
constexpr bool PUTS = EP4J_INTERNODE == EP4J_INTERNODE_PUTS;
constexpr u64 KIND_WEIGHTED = 16;      // bit of a kind: weights are dispatched, DELIVERS_WEIGHTS
constexpr u32 WARPS = 16;
constexpr u32 PIECE = 1024;            // values
constexpr u32 VECTORS = PIECE / 256;   // of 8 values a lane
constexpr u32 ROW_BLOCK = 128;         // values; rows are whole blocks
constexpr u32 NO_ENTRY = 0xffffffff;
constexpr u32 NO_WEIGHT = 0xffffffff;  // a NaN that is never sent as a weight
constexpr u32 MAX_AREAS = 4;          // if ranks can be masked; else 2
constexpr u32 NO_RANK = 0xffff;         // rank of an expert without a rank
constexpr u64 LOW_LATENCY = 1ull << 62;  // in epochs of the record: marks a number of this file

enum LowLatencyPhases { SENDING = 1, RECEIVING = 2 };

// At the start of a rank's part. Writer: kernels of this GPU, one kernel at a time.
struct LowLatencyState {
  u64 sent;      // number of the last operation sent: last block; with masks release, see above
  u64 received;  // number of the last operation received: last block
  u64 again;     // number of an operation whose receipt must be repeated because a rank was masked
  u64 used[MAX_AREAS];  // number of the last operation received in each area: with masks, last block
  u64 unused;
};

// The acknowledgement that a rank sends to its peers once it has received an operation: its number,
// and the areas for the next two operations. These are the number's parity xor two bits each, so a
// word without bits means the areas 0 and 1 alternately.
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

__device__ __forceinline__ u32 pieces_of(const LowLatencyParameters& p) {
  return ((u32)p.hidden + PIECE - 1) / PIECE;
}

// A count of rows, as sources publish it, for rows of this operation's length.
__device__ __forceinline__ u32 count_of(const LowLatencyParameters& p, u32 rows) {
  return (u32)p.hidden / ROW_BLOCK << 16 | rows;
}

__device__ __forceinline__ u32 even_pieces_of(const LowLatencyParameters& p) {
  return (pieces_of(p) + 1) / 2 * 2;
}

// Row capacity of each local expert; RANK_MAJOR: of each source.
__device__ __forceinline__ u32 capacity_of(const LowLatencyParameters& p) {
  return (u32)(RANK_MAJOR ? p.max_tokens : p.ranks * p.max_tokens);
}

// A choice, saved for its combine: the rank that holds its row, or NO_RANK, and the expert.
__device__ __forceinline__ u64 pack_choice(u32 holder, i64 expert) { return (u64)holder << 32 | (u32)expert; }
__device__ __forceinline__ u32 choice_holder(u64 choice) { return (u32)(choice >> 32); }
__device__ __forceinline__ i64 choice_expert(u64 choice) { return (int)choice; }

// An operation as one thread sees it. Functions with an `area` argument address words in that area.
struct Operation {
  const LowLatencyParameters& p;
  WaitContext wait;
  u64 number;
  Grant last_grant;  // this rank's last acknowledgement, to itself and its peers
  char* own;   // area of this rank

  __device__ __forceinline__ bool is_internode(u32 rank) const {
    return INTERNODE && rank - (u32)p.node_first >= (u32)p.node_ranks;
  }

  __device__ __forceinline__ bool uses_puts(u32 rank) const { return PUTS && is_internode(rank); }

  // Whether rows between a rank and this one use group words instead of flags.
  __device__ __forceinline__ bool uses_groups(u32 rank) const { return MAPPED || uses_puts(rank); }

  // Index of an internode rank among the internode ranks.
  __device__ __forceinline__ u32 internode_index(u32 rank) const {
    return rank < p.node_first ? rank : rank - (u32)p.node_ranks;
  }

  // Where a rank writes: `own`, or the same place in the internode part.
  __device__ __forceinline__ char* written_by(u32 rank, char* own, char* internode_part) const {
    return is_internode(rank) ? internode_part : own;
  }

  // Offset of this operation's area in every internode part.
  __device__ __forceinline__ u64 internode_area() const { return (number & 1) * p.internode_area_bytes; }

  // The area of this rank that another rank writes into.
  __device__ __forceinline__ char* from(u32 rank) const {
    return written_by(rank, own, p.internode_part + internode_area());
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

  // With groups: bit k of a piece's word: choice k is LogFMT. Writer: its pushing warp.
  __device__ __forceinline__ u64* packed(char* area, u32 holder, u32 token, u32 piece) const {
    return (u64*)(area + p.packed_offset + holder * p.source_bytes) +
           (u64)token * even_pieces_of(p) + piece;
  }

  // Flag of a piece of row [source][token].
  __device__ __forceinline__ u64* row_flag(char* area, u32 source, u32 token, u32 piece) const {
    return (u64*)(area + p.flags_offset) +
           ((u64)source * p.max_tokens + token) * pieces_of(p) + piece;
  }

  // Flags of a piece of the return rows of a token.
  __device__ __forceinline__ u64* return_flags(char* area, u32 token, u32 piece) const {
    return (u64*)(area + p.flags_offset) + ((u64)token * pieces_of(p) + piece) * p.flag_stride;
  }

  __device__ __forceinline__ char* row(char* area, u64 slot) const {
    return area + p.rows_offset + slot * 2 * p.hidden;
  }

  // A row that `writer` writes for the other one of this rank and `peer`: at `slot` of all rows, or at
  // `own_slot` of the writer's.
  __device__ __forceinline__ char* row_of_slot(char* area, u32 peer, u32 writer, u64 slot, u64 own_slot) const {
    if constexpr (INTERNODE) {
      if (p.masking && is_internode(peer)) {
        return area + p.rows_offset + writer * p.share_bytes + own_slot * 2 * p.hidden;
      }
    }
    return row(area, slot);
  }

  // A token's slot, with one row a source and token.
  __device__ __forceinline__ u64 token_slot(u32 source, u32 token) const {
    return (u64)source * p.max_tokens + token;
  }

  // A choice's slot, with one row a choice.
  __device__ __forceinline__ u64 choice_slot(u32 token, u32 k) const {
    return (u64)token * p.max_choices + k;
  }

 private:
  // Internode: all words of one source are contiguous, so the wire carries them in one put.
  __device__ __forceinline__ u64* source_words(char* at, u32 source, u64 each) const {
    return INTERNODE ? (u64*)(at + source * p.source_bytes) : (u64*)at + source * each;
  }

  __device__ __forceinline__ u64* tokens_of(char* at, u32 source, u32 token) const {
    return INTERNODE ? source_words(at, source, 0) + (u64)token * p.max_choices
                : (u64*)at + ((u64)source * p.max_tokens + token) * p.max_choices;
  }
};
