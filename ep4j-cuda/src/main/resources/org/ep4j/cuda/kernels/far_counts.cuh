// Counts between nodes. Block 0 of a rank tells them to all ranks of other nodes as it does to those of
// its own, and copies what they tell to where the layout looks for it.
//
// Words that a rank has told may be written over in its next dispatch. It gets there only once all
// its near ranks are done, each of which has taken all slots that it forwards; and of every rank, some
// rank of each other node takes a slot that block 0 fills, after it has copied all counts.
#pragma once
#include "far_streams.cuh"
#include "layout.cuh"

__device__ __forceinline__ bool is_far(const FarWorld& far, u32 rank) {
  return !is_near(far, rank) && far.node_of[rank] != NO_NODE;
}

// Where a dispatch sees who has entered it, in other nodes too if it has counts. `more` are the tellings that
// are not among those of the operations that ended.
struct FarEntries {
  const DispatchParameters& p;
  u64 more;

  __device__ __forceinline__ Entries operator()() const {
    Entries entries = NodeEntries{p}();
    entries.told = p.cached ? nullptr : p.far->told;
    entries.carrier = &p.far->carrier;
    entries.tellings = *p.far->tellings + more;
    entries.node_of = p.node_of;
    return entries;
  }
};

// All threads of block 0, after publish_rank, in which other blocks have their share.
__device__ __forceinline__ void publish_far(const DispatchParameters& p, const FarWorld& far,
                                            const Watch& w) {
  for (u32 i = threadIdx.x; i < count_words(p); i += blockDim.x) {
    u64 word = tagged(w.epoch, wait_count(p, w, (u32)p.rank, i));
    if (!far.mapped) {
      store_relaxed_system(&far.counts_out[i], word);
    }
    for (u32 r = 0; far.mapped && r < p.ranks; r++) {
      if (is_far(far, r)) {
        store_relaxed_system(&far.counts_there[r][i], word);
      }
    }
  }
  __threadfence_system();
  __syncthreads();
  if (warp_id() != 0) {
    return;
  }
  u64 bytes = ((u64)count_words(p) * 8 + COMMAND_UNIT - 1) / COMMAND_UNIT * COMMAND_UNIT;
  for (u32 first = 0; first < p.ranks; first += 32) {
    u32 r = first + lane_id();
    bool there = r < p.ranks && is_far(far, r);
    Command put = put_command(r, 0, far.counts_source, far.counts_target, bytes, NO_COUNTER);
    Command add = add_command(r, 0, (u32)far.told_there, 1);
    if (!pushed(w, r, hand_over(far.carrier, 0, there && !far.mapped, put, w.deadline)) ||
        !pushed(w, r, hand_over(far.carrier, 0, there, add, w.deadline))) {
      return;
    }
  }
}

// All threads of block 0.
__device__ __forceinline__ void import_far(const DispatchParameters& p, const FarWorld& far,
                                           const Watch& w) {
  constexpr u32 AT_ONCE = 4;
  u64 told = *far.tellings + 1;
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (is_far(far, r)) {
      wait_counter(far, w, far.told + r, told, PHASE_COUNTS, r);
    }
  }
  if (__syncthreads_or(aborted(w))) {
    return;
  }
  u32 words = count_words(p);
  u32 all = words * (u32)p.ranks;
  for (u32 first = threadIdx.x; first < all; first += blockDim.x * AT_ONCE) {
    u64 held[AT_ONCE];
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
      u32 i = first + j * blockDim.x;
      u32 r = i / words;
      held[j] = i < all && is_far(far, r)
                    ? load_relaxed_system(far.counts_in + r * far.count_stride + (i - r * words))
                    : 0;
    }
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
      u32 i = first + j * blockDim.x;
      u32 r = i / words;
      if (i < all && is_far(far, r)) {
        store_relaxed_system(&counts_of(p, (u32)p.rank, r)[i - r * words], held[j]);
      }
    }
  }
  __syncthreads();
}

// Tokens of all ranks into the handle: all threads of block 0, after find_slots.
__device__ __forceinline__ void keep_tokens(const DispatchParameters& p, const Watch& w) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    p.matrix[p.ranks * (p.ranks + 1) + r] = wait_count(p, w, r, tokens_word(p));
  }
}
