// What a block knows of the routing, and how it learns that of the peers.
#pragma once
#include "low_latency_begin.cuh"

// Barriers of a block; 0 is that of all.
enum Barriers { BARRIER_SENDING = 1, BARRIER_RECEIVING = 2, BARRIER_FIRST_ROWS = 3 };

// Warps of a block that do something together, and meet at a barrier of their own.
struct Team {
  u32 first;
  u32 warps;
  u32 barrier;

  __device__ __forceinline__ bool has_this_warp() const { return warp_id() - first < warps; }
  __device__ __forceinline__ u32 thread() const { return threadIdx.x - first * 32; }
  __device__ __forceinline__ u32 threads() const { return warps * 32; }
  __device__ __forceinline__ void sync() const { barrier_sync(barrier, threads()); }
};

// What a block knows; shared memory.
struct Sources {
  char** areas;  // [ranks] areas of the ranks that count, else null
  char** parts;  // [ranks] their parts
  u32* tokens;   // [ranks] tokens of a source; 0 if it does not count
  u32* choices;  // [ranks] its choices a token; likewise
  u32* owners;   // [experts] as `placement`, if the kernel sends
  u32* taken;    // pieces that warps have taken to receive them
  u32* first;    // [local experts, ranks + 1] first row of a source, and the rows of all; by ranks
                 // there is one line more, with the rows of each source
  u32 stride;

  __device__ __forceinline__ Sources(char* shared, const LowLatencyParameters& p)
      : areas((char**)shared),
        parts(areas + p.ranks),
        tokens((u32*)(parts + p.ranks)),
        choices(tokens + p.ranks),
        owners(choices + p.ranks),
        taken(owners + p.experts),
        first(taken + 1),
        stride((u32)p.ranks + 1) {}

  // Where the table of first rows ends.
  __device__ __forceinline__ u32* end(const LowLatencyParameters& p) const {
    return first + (p.local_experts + RANK_MAJOR) * stride;
  }

  // By ranks: the rows of each source.
  __device__ __forceinline__ u32* rows(const LowLatencyParameters& p) const {
    return first + p.local_experts * stride;
  }

  // To be followed by a barrier. From the last thread on: the first ones have ranks to look at.
  __device__ __forceinline__ void load_owners(const LowLatencyParameters& p) const {
    for (u32 e = blockDim.x - 1 - threadIdx.x; e < p.experts; e += blockDim.x) {
      owners[e] = p.placement[e];
    }
  }

  // Likewise.
  __device__ __forceinline__ void reset_taken() const {
    if (threadIdx.x == 0) {
      *taken = 0;
    }
  }

  // The rank of an expert if it counts, else NOBODY.
  __device__ __forceinline__ u32 rank_of(const LowLatencyParameters& p, i64 expert) const {
    if (expert < 0 || expert >= (i64)p.experts) {
      return NO_RANK;
    }
    u32 rank = owners[expert] >> 16;
    return rank < p.ranks && areas[rank] != nullptr ? rank : NO_RANK;
  }
};

// Waits for a word that a source tells, and brings it if that falls to this block.
__device__ __forceinline__ bool read_published(const Operation& op, u32 s, u64* at, u32& value) {
#if EP4J_INTERNODE
  if (serves_rank(op, s)) {
    return await_words(op, s) && import_word(op, s, at, value, poll_word<WORD_TAGGED>(internode_word(op, s, at)));
  }
#endif
  return await_value(op, at, s, PHASE_COUNTS, value, poll_word<WORD_TAGGED>(at));
}

// By ranks: the rows of a source, which has told its batch.
__device__ __forceinline__ u32 read_source_rows(const Operation& op, u32 s) {
  u32 rows = 0;
  return read_published(op, s, op.counts(op.own, s) + op.p.count_stride - 1, rows) ? rows : 0;
}

// What a source dispatches; one thread.
__device__ __forceinline__ void read_batch(const Operation& op, const Sources& sources, u32 s) {
  const LowLatencyParameters& p = op.p;
  u32 batch = 0;
  bool there = sources.areas[s] != nullptr && read_published(op, s, op.header(op.own, s), batch);
  u64 choices = batch >> 16 & 0xff;
  if (there && (batch >> 24 != p.kind || (RANK_MAJOR && choices != p.top_k))) {
    op.wait.record->expected = p.top_k << 8 | p.kind;
    op.wait.record->peer = s;
    bad_routing(op.wait, STATE_OTHER_KIND, 0, 0, choices << 8 | batch >> 24);
    there = false;
  }
  sources.tokens[s] = there ? batch & 0xffff : 0;
  sources.choices[s] = there ? (u32)choices : 0;
  if (RANK_MAJOR) {
    sources.rows(op.p)[s] = there ? read_source_rows(op, s) : 0;
  }
}

// A team of a block, which has looked around: waits for what the sources tell, and finds where their
// rows begin.
__device__ __forceinline__ void read_routing(const Operation& op, const Sources& sources, Team team) {
  const LowLatencyParameters& p = op.p;
  u32 local = (u32)p.local_experts;
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
  if (blockIdx.x == 0 && warp_id() == team.first) {
    relay<false>(op, sources.areas, [](u32) { return 0u; });
  }
#endif
  // One word a thread, so that all are awaited at once.
  for (u32 i = team.thread(); i < (local + 1) * p.ranks; i += team.threads()) {
    u32 s = i / (local + 1);
    u32 l = i - s * (local + 1);
    if (l == local) {
      read_batch(op, sources, s);
      continue;
    }
    u32 rows = 0;
    if (sources.areas[s] != nullptr) {
      read_published(op, s, op.counts(op.own, s) + l, rows);
    }
    sources.first[l * sources.stride + s] = rows;
  }
  team.sync();
  for (u32 l = team.thread(); l < local; l += team.threads()) {
    u32 sum = 0;
    for (u32 s = 0; s <= p.ranks; s++) {
      u32 rows = s < p.ranks && sources.choices[s] != 0 ? sources.first[l * sources.stride + s] : 0;
      sources.first[l * sources.stride + s] = sum;
      sum += rows;
    }
  }
  team.sync();
#if EP4J_INTERNODE
  for (u32 s = 0; s < p.ranks; s++) {
    if (serves_rank(op, s) && sources.tokens[s] > 0) {
      bool weights = RANK_MAJOR && (p.kind & KIND_WEIGHTED);
      import_entries(op, s, sources.tokens[s], sources.choices[s], weights, team.thread(), team.threads());
    }
  }
#endif
}

// What the caller is told of the rows, and what the combine needs: a team of one block.
__device__ __forceinline__ void write_caller_results(const Operation& op, const Sources& sources, Team team) {
  const LowLatencyParameters& p = op.p;
  for (u32 s = team.thread(); RANK_MAJOR && s < p.ranks; s += team.threads()) {
    u32 rows = sources.rows(p)[s];
    p.ranges[s] = s * p.max_tokens << 32 | rows;
    p.row_counts[s] = (int)rows;
  }
  for (u32 i = team.thread(); !RANK_MAJOR && i < p.local_experts * p.ranks; i += team.threads()) {
    u32 l = i / (u32)p.ranks;
    const u32* first = sources.first + l * sources.stride + (i - l * (u32)p.ranks);
    p.ranges[i] = (u64)first[0] << 32 | (first[1] - first[0]);
  }
  for (u32 l = team.thread(); l < p.local_experts; l += team.threads()) {
    u32 rows = sources.first[l * sources.stride + p.ranks];
    if (!RANK_MAJOR) {
      p.row_counts[l] = (int)rows;
    }
    if (p.cumulative != nullptr) {
      p.cumulative[l] += (int)rows;
    }
  }
  for (u32 s = team.thread(); s < p.ranks; s += team.threads()) {
    p.batches[s] = sources.choices[s] << 16 | sources.tokens[s];
  }
}
