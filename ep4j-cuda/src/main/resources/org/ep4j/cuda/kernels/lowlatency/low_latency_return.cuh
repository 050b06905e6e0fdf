// Return rows to internode ranks; see low_latency_internode.cuh.
#pragma once
#include "lowlatency/low_latency_return_item.cuh"

// How the rows of an item travel to its source. Functions are for whole warps.
template <bool BY_PUTS>
struct ReturnPut;

// By puts, if the source is an internode rank: rows go to its shadow; with the last piece they are
// put.
template <>
struct ReturnPut<true> {
  const Operation& op;
  const ReturnItem& item;
  bool uses_puts;
  u32 before = 0;  // rows of the token before these
  u64 packed = 0;

  __device__ __forceinline__ ReturnPut(const Operation& op, const ReturnItem& item)
      : op(op), item(item), uses_puts(op.uses_puts(item.source)) {}

  // Whether rows are put.
  __device__ __forceinline__ bool begin() { return uses_puts; }

  // Destination of this lane's row of `lanes`.
  __device__ __forceinline__ char* row(u32 lanes) const { return op.p.puts->staging + source(lanes); }

  // The same for the one row of a token.
  __device__ __forceinline__ char* row_of_token() const {
    return op.p.puts->staging + staging_row(op, op.internode_index(item.source),
                                           (u64)item.token * rows_of_token(op.p));
  }

  __device__ __forceinline__ bool skips_flags() const { return false; }
  __device__ __forceinline__ void publish_packed(char*, u32, u32) const {}

  // Puts the rows of `lanes` if rows are put; this lane's row goes to `slot` at the source, or to `own_slot`
  // of this rank's rows there.
  __device__ __forceinline__ bool submit(u32 lanes, u64 slot, u64 own_slot) {
    if (!uses_puts) {
      return false;
    }
    if (item.piece + 1 == pieces_of(op.p)) {
      const char* target = op.row_of_slot(nullptr, item.source, (u32)op.p.rank, slot, own_slot);
      put_rows(op, lanes >> lane_id() & 1, item.source, source(lanes),
                (u64)(target - (const char*)nullptr), 2 * op.p.hidden);
    }
    before += __popc(lanes);
    return true;
  }

  // Records which choices from `first` on travel as LogFMT.
  __device__ __forceinline__ void set_packed(u32 first, u32 which) { packed |= (u64)which << first; }

  // Ends the item. `publishes`: the source must know which rows are packed.
  __device__ __forceinline__ void end(char* area, bool publishes) const {
    if (!uses_puts || !publishes || before == 0) {
      return;
    }
    const LowLatencyParameters& p = op.p;
    u64* words = op.packed(area, (u32)p.rank, item.token, 0);
    if (is_first_lane()) {
      words[item.piece] = packed;
    }
    if (item.piece + 1 == pieces_of(p)) {
      __syncwarp();
      put_rows(op, is_first_lane(), item.source, (u64)((char*)words - p.puts->staging),
                (u64)((char*)op.packed(nullptr, (u32)p.rank, item.token, 0) - (char*)nullptr),
                even_pieces_of(p) * 8);
    }
  }

 private:
  __device__ __forceinline__ u64 source(u32 lanes) const {
    u32 index = before + __popc(lanes & ((1u << lane_id()) - 1));
    u64 slot = (u64)item.token * rows_of_token(op.p) + index;
    return staging_row(op, op.internode_index(item.source), slot);
  }
};

// By stores. With groups there are no flags; the packed bits are published beside the rows.
template <>
struct ReturnPut<false> {
  const Operation& op;
  const ReturnItem& item;

  __device__ __forceinline__ ReturnPut(const Operation& op, const ReturnItem& item)
      : op(op), item(item) {}
  __device__ __forceinline__ bool begin() const { return false; }
  __device__ __forceinline__ char* row(u32) const { return nullptr; }
  __device__ __forceinline__ char* row_of_token() const { return nullptr; }
  __device__ __forceinline__ bool submit(u32, u64, u64) const { return false; }
  __device__ __forceinline__ bool skips_flags() const { return op.uses_groups(item.source); }
  __device__ __forceinline__ void set_packed(u32, u32) {}
  __device__ __forceinline__ void end(char*, bool) const {}

  // Writes half of the word: the choices from `first` on.
  __device__ __forceinline__ void publish_packed(char* area, u32 first, u32 packed) const {
    if (is_first_lane()) {
      ((u32*)op.packed(area, (u32)op.p.rank, item.token, item.piece))[first / 32] = packed;
    }
  }
};

// Number of puts that return this rank's rows for an internode source: a whole warp, one token a
// lane. `each`: one row a choice, plus `more` for a token with any; else one row a token.
__device__ __forceinline__ u32 count_puts(const Operation& op, u32 source, u32 batch, bool each,
                                           u32 more) {
  const LowLatencyParameters& p = op.p;
  u32 count = 0;
  for (u32 t = lane_id(); t < (batch & 0xffff); t += 32) {
    const u32* choice_rows = p.choice_rows + op.token_slot(source, t) * p.max_choices;
    u32 held = 0;
    for (u32 k = 0; k < batch >> 16; k++) {
      held += choice_rows[k] != NO_ENTRY;
    }
    count += held == 0 ? 0 : each ? held + more : 1;
  }
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) {
    count += __shfl_xor_sync(0xffffffff, count, i);
  }
  return count;
}

// PUTS: publishes the weights, if any, and the number of rows to internode ranks. All threads; one block
// a rank, so that all its words are known to be written when they are put.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void publish_return_words(const Operation& op, char* const* areas, const u32* batches) {
  const LowLatencyParameters& p = op.p;
  for (u32 r = 0; r < p.ranks; r++) {
    if (!serves_rank(op, r) || areas[r] == nullptr) {
      continue;
    }
    for (u32 i = threadIdx.x; RETURN_FORMAT == RETURN_PARTIAL && i < p.tokens * p.top_k; i += blockDim.x) {
      Choice choice(op, i);
      choice.check(op, areas);
      store_relaxed_system(op.entries(areas[r], (u32)p.rank, choice.token) + choice.k,
                           tagged_word(op, choice.encoded_weight()));
    }
    __syncthreads();
    if (warp_id() == op.internode_index(r) % WARPS) {
      constexpr bool EACH = RETURN_FORMAT == RETURN_BF16 || RETURN_FORMAT == RETURN_LOGFMT;
      u32 rows = count_puts(op, r, batches[r], EACH, RETURN_FORMAT == RETURN_LOGFMT);
      put_words(op, r, RETURN_FORMAT == RETURN_PARTIAL, (u32)p.tokens, false, rows);
    }
  }
}

// Imports the weights from internode ranks; all threads. MAPPED: all blocks share the weights of
// each rank, so that no warp waits longer than for one or two loads; PUTS: one block a rank.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void import_return_weights(const Operation& op, char* const* areas, const u32* batches) {
  if constexpr (RETURN_FORMAT == RETURN_PARTIAL) {
    if constexpr (PUTS) {
      if (blockIdx.x == 0 && warp_id() == 0) {
        relay_counters<false>(op, areas, [](u32) { return 0u; });
      }
    }
    u32 thread = MAPPED ? (warp_id() * gridDim.x + blockIdx.x) * 32 + lane_id() : threadIdx.x;
    u32 threads = MAPPED ? gridDim.x * blockDim.x : blockDim.x;
    for (u32 r = 0; r < op.p.ranks; r++) {
      if ((MAPPED ? op.is_internode(r) : serves_rank(op, r)) && areas[r] != nullptr) {
        import_entries(op, r, batches[r] & 0xffff, batches[r] >> 16, false, thread, threads);
      }
    }
  }
}
