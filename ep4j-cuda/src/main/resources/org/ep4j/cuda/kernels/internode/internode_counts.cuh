// Counts between nodes. Block 0 of a rank publishes them to all ranks of other nodes and copies
// received counts to where the layout reads them.
//
// A rank overwrites its published words in its next dispatch. Invariant: by then every rank has
// imported them. A rank reaches its next dispatch only once all ranks of its node are done, each of
// which has taken all slots that it forwards; and every rank of another node sends a slot to this
// node that its block 0 fills after it has imported all counts.
#pragma once
#include "internode/internode_schedule.cuh"
#include "dispatch/layout.cuh"

__device__ __forceinline__ bool is_internode(const InternodeWorld& world, u32 rank) {
  return !is_intranode(world, rank) && world.node_of[rank] != NO_NODE;
}

// The words that show a dispatch which ranks have entered, also on other nodes if it has counts.
// `more`: rounds not yet included in `published_rounds`.
struct InternodeEntrySignals {
  const DispatchParameters& p;
  u64 more;

  __device__ __forceinline__ EntrySignals operator()() const {
    EntrySignals entries = IntranodeEntrySignals{p}();
    entries.counts_published = p.cached ? nullptr : p.internode->counts_published;
    entries.transport = &p.internode->transport;
    entries.published_rounds = *p.internode->published_rounds + more;
    entries.node_of = p.node_of;
    return entries;
  }
};

// All threads of block 0, after publish_rank, to which all sending blocks contribute.
__device__ __forceinline__ void publish_internode_counts(const DispatchParameters& p, const InternodeWorld& world,
                                            const WaitContext& w) {
  for (u32 i = threadIdx.x; i < count_words(p); i += blockDim.x) {
    u64 word = tagged(w.epoch, wait_count(p, w, (u32)p.rank, i));
    if (!world.mapped) {
      store_relaxed_system(&world.counts_out[i], word);
    }
    for (u32 r = 0; world.mapped && r < p.ranks; r++) {
      if (is_internode(world, r)) {
        store_relaxed_system(&world.remote_counts[r][i], word);
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
    bool there = r < p.ranks && is_internode(world, r);
    Command put = put_command(r, 0, world.counts_source, world.counts_target, bytes, NO_COUNTER);
    Command add = add_command(r, 0, (u32)world.remote_counts_published, 1);
    if (!check_submitted(w, r, submit(world.transport, 0, there && !world.mapped, put, w.deadline)) ||
        !check_submitted(w, r, submit(world.transport, 0, there, add, w.deadline))) {
      return;
    }
  }
}

// All threads of block 0.
__device__ __forceinline__ void import_internode_counts(const DispatchParameters& p, const InternodeWorld& world,
                                           const WaitContext& w) {
  constexpr u32 UNROLL = 4;
  u64 counts_published = *world.published_rounds + 1;
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (is_internode(world, r)) {
      wait_counter(world, w, world.counts_published + r, counts_published, PHASE_COUNTS, r);
    }
  }
  if (__syncthreads_or(aborted(w))) {
    return;
  }
  u32 words = count_words(p);
  u32 all = words * (u32)p.ranks;
  for (u32 first = threadIdx.x; first < all; first += blockDim.x * UNROLL) {
    u64 held[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      u32 i = first + j * blockDim.x;
      u32 r = i / words;
      held[j] = i < all && is_internode(world, r)
                    ? load_relaxed_system(world.counts_in + r * world.count_stride + (i - r * words))
                    : 0;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      u32 i = first + j * blockDim.x;
      u32 r = i / words;
      if (i < all && is_internode(world, r)) {
        store_relaxed_system(&counts_of(p, (u32)p.rank, r)[i - r * words], held[j]);
      }
    }
  }
  __syncthreads();
}

// Writes the number of tokens of each rank into the handle; all threads of block 0, after
// find_slots.
__device__ __forceinline__ void save_tokens(const DispatchParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    matrix_row(p, ROW_TOKENS)[r] = wait_count(p, w, r, tokens_word(p));
  }
}
