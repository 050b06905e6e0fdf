// Rows that go home to far ranks; a part of low_latency_push.cuh, see low_latency_far.cuh.
#pragma once

#if EP4J_FAR == EP4J_FAR_PUTS
// What becomes of a parcel if its source is a far rank: rows go to its shadow and, with the last piece,
// on from there. Functions are for whole warps.
struct HomePost {
  const Operation& op;
  const Homebound& parcel;
  bool posted;
  u32 before = 0;  // rows of the token in front of these
  u64 packed = 0;

  __device__ __forceinline__ HomePost(const Operation& op, const Homebound& parcel)
      : op(op), parcel(parcel), posted(op.is_posted(parcel.source)) {}

  // Whether rows are posted.
  __device__ __forceinline__ bool begin() { return posted; }

  // Where this lane's row of `lanes` goes.
  __device__ __forceinline__ char* row(u32 lanes) const { return op.p.posts->shadow + source(lanes); }

  // The same for the one row of a token.
  __device__ __forceinline__ char* row_of_token() const {
    return op.p.posts->shadow + shadow_row(op, far_number(op, parcel.source),
                                           (u64)parcel.token * rows_of_token(op.p));
  }

  __device__ __forceinline__ bool skips_flags() const { return false; }
  __device__ __forceinline__ void tell(char*, u32, u32) const {}

  // Takes the rows of `lanes` if they are posted; this lane's belongs to a slot of the source.
  __device__ __forceinline__ bool takes(u32 lanes, u64 slot) {
    if (!posted) {
      return false;
    }
    if (parcel.piece + 1 == pieces_of(op.p)) {
      post_rows(op, lanes >> lane_id() & 1, parcel.source, source(lanes),
                (u64)(op.row(nullptr, slot) - (char*)nullptr), 2 * op.p.hidden);
    }
    before += __popc(lanes);
    return true;
  }

  // Which of the choices from `first` on travel as LogFMT.
  __device__ __forceinline__ void note(u32 first, u32 which) { packed |= (u64)which << first; }

  // All rows of the parcel have been taken. `says`: the source must know which are packed.
  __device__ __forceinline__ void end(char* area, bool says) const {
    if (!posted || !says || before == 0) {
      return;
    }
    const LowLatencyParameters& p = op.p;
    u64* words = op.packed(area, (u32)p.rank, parcel.token, 0);
    if (lane_id() == 0) {
      words[parcel.piece] = packed;
    }
    if (parcel.piece + 1 == pieces_of(p)) {
      __syncwarp();
      post_rows(op, lane_id() == 0, parcel.source, (u64)((char*)words - p.posts->shadow),
                (u64)((char*)op.packed(nullptr, (u32)p.rank, parcel.token, 0) - (char*)nullptr),
                even_pieces_of(p) * 8);
    }
  }

 private:
  __device__ __forceinline__ u64 source(u32 lanes) const {
    u32 place = before + __popc(lanes & ((1u << lane_id()) - 1));
    u64 slot = (u64)parcel.token * rows_of_token(op.p) + place;
    return shadow_row(op, far_number(op, parcel.source), slot);
  }
};

// Puts that bring home what this rank holds of a far source: a whole warp, a token a lane. `each`: a row
// a choice travels, and then `more` for a token with any; else one a token.
__device__ __forceinline__ u32 count_posts(const Operation& op, u32 source, u32 batch, bool each,
                                           u32 more) {
  const LowLatencyParameters& p = op.p;
  u32 count = 0;
  for (u32 t = lane_id(); t < (batch & 0xffff); t += 32) {
    const u32* places = p.places + op.token_slot(source, t) * p.most_choices;
    u32 held = 0;
    for (u32 k = 0; k < batch >> 16; k++) {
      held += places[k] != NO_ENTRY;
    }
    count += held == 0 ? 0 : each ? held + more : 1;
  }
#pragma unroll
  for (u32 i = 16; i > 0; i /= 2) {
    count += __shfl_xor_sync(0xffffffff, count, i);
  }
  return count;
}
#else
// Nothing is posted. Where groups are told there are no flags; what is packed is told beside the rows.
struct HomePost {
  const Operation& op;
  const Homebound& parcel;

  __device__ __forceinline__ HomePost(const Operation& op, const Homebound& parcel)
      : op(op), parcel(parcel) {}
  __device__ __forceinline__ bool begin() const { return false; }
  __device__ __forceinline__ char* row(u32) const { return nullptr; }
  __device__ __forceinline__ char* row_of_token() const { return nullptr; }
  __device__ __forceinline__ bool takes(u32, u64) const { return false; }
  __device__ __forceinline__ bool skips_flags() const { return op.tells_groups(parcel.source); }
  __device__ __forceinline__ void note(u32, u32) {}
  __device__ __forceinline__ void end(char*, bool) const {}

  // Halves of the word, by the choices from `first` on.
  __device__ __forceinline__ void tell(char* area, u32 first, u32 packed) const {
    if (lane_id() == 0) {
      ((u32*)op.packed(area, (u32)op.p.rank, parcel.token, parcel.piece))[first / 32] = packed;
    }
  }
};
#endif

#if EP4J_FAR == EP4J_FAR_PUTS
// Tells far ranks the weights, if there are any to be told, and how many rows they get. All threads; a
// block a rank, so that all its words are known to be there when they are posted.
template <Travel TRAVEL>
__device__ __forceinline__ void tell_home(const Operation& op, char* const* areas, const u32* batches) {
  const LowLatencyParameters& p = op.p;
  for (u32 r = 0; r < p.ranks; r++) {
    if (!is_served_here(op, r) || areas[r] == nullptr) {
      continue;
    }
    for (u32 i = threadIdx.x; TRAVEL == TRAVEL_PARTIAL && i < p.tokens * p.top_k; i += blockDim.x) {
      Choice choice(op, i);
      choice.check(op, areas);
      store_relaxed_system(op.entries(areas[r], (u32)p.rank, choice.token) + choice.k,
                           numbered(op, choice.told_weight()));
    }
    __syncthreads();
    if (warp_id() == far_number(op, r) % WARPS) {
      constexpr bool EACH = TRAVEL == TRAVEL_BF16 || TRAVEL == TRAVEL_LOGFMT;
      u32 rows = count_posts(op, r, batches[r], EACH, TRAVEL == TRAVEL_LOGFMT);
      post_words(op, r, TRAVEL == TRAVEL_PARTIAL, (u32)p.tokens, false, rows);
    }
  }
}
#else
// Nothing is left to be told: all blocks have told the weights; see tell_weights.
template <Travel TRAVEL>
__device__ __forceinline__ void tell_home(const Operation&, char* const*, const u32*) {}
#endif

#if EP4J_FAR
// Brings the weights that far ranks tell; all threads. Mapped: all blocks share those of each rank, so
// that no warp waits longer than for a look or two; a wire has them looked at by one block a rank.
template <Travel TRAVEL>
__device__ __forceinline__ void bring_home(const Operation& op, char* const* areas, const u32* batches) {
  if constexpr (TRAVEL == TRAVEL_PARTIAL) {
#if EP4J_FAR == EP4J_FAR_PUTS
    if (blockIdx.x == 0 && warp_id() == 0) {
      relay<false>(op, areas, [](u32) { return 0u; });
    }
#endif
    u32 thread = MAPPED ? (warp_id() * gridDim.x + blockIdx.x) * 32 + lane_id() : threadIdx.x;
    u32 threads = MAPPED ? gridDim.x * blockDim.x : blockDim.x;
    for (u32 r = 0; r < op.p.ranks; r++) {
      if ((MAPPED ? op.is_far(r) : is_served_here(op, r)) && areas[r] != nullptr) {
        bring_entries(op, r, batches[r] & 0xffff, batches[r] >> 16, false, thread, threads);
      }
    }
  }
}
#endif
