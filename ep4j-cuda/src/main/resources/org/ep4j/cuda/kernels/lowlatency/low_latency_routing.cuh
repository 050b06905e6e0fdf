// A block's copy of the routing, and how it reads that of the peers.
#pragma once
#include "lowlatency/low_latency_begin.cuh"

// Barriers of a block; 0 is that of all threads.
enum Barriers { BARRIER_SENDING = 1, BARRIER_RECEIVING = 2, BARRIER_FIRST_ROWS = 3 };

// Warps of a block with a common task and their own barrier.
struct Team {
  u32 first;
  u32 warps;
  u32 barrier;

  __device__ __forceinline__ bool has_this_warp() const { return warp_id() - first < warps; }
  __device__ __forceinline__ u32 thread() const { return threadIdx.x - first * 32; }
  __device__ __forceinline__ u32 threads() const { return warps * 32; }
  __device__ __forceinline__ void sync() const { barrier_sync(barrier, threads()); }
};

// A block's view of the sources; shared memory.
struct Sources {
  char** areas;  // [ranks] areas of live ranks, else null
  char** parts;  // [ranks] their parts
  u32* tokens;   // [ranks] tokens of a source; 0 if it is not live
  u32* choices;  // [ranks] its choices a token; likewise
  u32* owners;   // [experts] as `placement`, if the kernel sends
  u32* taken;    // pieces that receiving warps have taken
  u32* first;    // [local experts, ranks + 1] first row of a source, and the number of all rows;
                 // RANK_MAJOR: one more row with the rows of each source
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

  // End of the table of first rows.
  __device__ __forceinline__ u32* end(const LowLatencyParameters& p) const {
    return first + (p.local_experts + RANK_MAJOR) * stride;
  }

  // RANK_MAJOR: the rows of each source.
  __device__ __forceinline__ u32* rows(const LowLatencyParameters& p) const {
    return first + p.local_experts * stride;
  }

  // A barrier must follow. Starts at the last thread, because the first threads read the state of
  // the ranks.
  __device__ __forceinline__ void load_owners(const LowLatencyParameters& p) const {
    for (u32 e = blockDim.x - 1 - threadIdx.x; e < p.experts; e += blockDim.x) {
      owners[e] = p.placement[e];
    }
  }

  // A barrier must follow.
  __device__ __forceinline__ void reset_taken() const {
    if (is_first_thread()) {
      *taken = 0;
    }
  }

  // The rank of an expert if it is live, else NO_RANK.
  __device__ __forceinline__ u32 rank_of(const LowLatencyParameters& p, i64 expert) const {
    if (expert < 0 || expert >= (i64)p.experts) {
      return NO_RANK;
    }
    u32 rank = owners[expert] >> 16;
    return rank < p.ranks && areas[rank] != nullptr ? rank : NO_RANK;
  }
};

// Whether this thread witnesses waits for rows of a dispatch (observation.cuh): of the first warp that receives
// in every launch. Waits for groups are those of the relay.
__device__ __forceinline__ bool is_row_witness() { return blockIdx.x == 0 && ask_anew(threadIdx.x) == WARPS / 2 * 32; }

// In the place of a number of rows: the rows of the source have another length, so that none of them
// can be read.
constexpr u32 OTHER_ROWS = 0xffffffff;

// Waits for a word that a source publishes, and imports it if this block serves the source.
__device__ __forceinline__ bool read_published(const Operation& op, u32 s, u64* at, u32& value,
                                               bool witness = false) {
  if constexpr (INTERNODE) {
    if (serves_rank(op, s)) {
      return await_words(op, s) && import_word(op, s, at, value, poll_word<WORD_TAGGED>(internode_word(op, s, at)), witness);
    }
  }
  return await_value(op, at, s, PHASE_COUNTS | IN_OWN_PART, value, poll_word<WORD_TAGGED>(at), witness);
}

// Reports a source that dispatches other rows: `blocks` a row, 0: unknown.
__device__ __forceinline__ void report_other_rows(const Operation& op, u32 s, u64 blocks, u64 choices,
                                                  u64 kind) {
  const LowLatencyParameters& p = op.p;
  bad_routing(op.wait, STATE_OTHER_KIND, 0, 0, blocks << 16 | choices << 8 | kind,
              p.hidden / ROW_BLOCK << 16 | p.top_k << 8 | p.kind, s);
}

// The rows that a source has published in a word of `counts`, or OTHER_ROWS.
__device__ __forceinline__ u32 read_count(const Operation& op, u32 s, u32 place, bool witness = false) {
  const LowLatencyParameters& p = op.p;
  u32 count = 0;
  if (!read_published(op, s, op.counts(op.own, s) + place, count, witness)) {
    return 0;
  }
  if (count >> 16 != (u32)p.hidden / ROW_BLOCK) {
    report_other_rows(op, s, count >> 16, p.top_k, p.kind);
    return OTHER_ROWS;
  }
  return count & 0xffff;
}

// RANK_MAJOR: the rows of a source that has published its batch.
__device__ __forceinline__ u32 read_source_rows(const Operation& op, u32 s) {
  return read_count(op, s, (u32)op.p.count_stride - 1);
}

// Reads the header of a source; one thread.
__device__ __forceinline__ void read_batch(const Operation& op, const Sources& sources, u32 s, bool witness) {
  const LowLatencyParameters& p = op.p;
  u32 batch = 0;
  bool there = sources.areas[s] != nullptr && read_published(op, s, op.header(op.own, s), batch, witness);
  u64 choices = batch >> 16 & 0xff;
  if (there && (batch >> 24 != p.kind || (RANK_MAJOR && choices != p.top_k))) {
    report_other_rows(op, s, 0, choices, batch >> 24);
    there = false;
  }
  if (RANK_MAJOR) {
    u32 rows = there ? read_source_rows(op, s) : 0;
    there = there && rows != OTHER_ROWS;
    sources.rows(p)[s] = there ? rows : 0;
  }
  sources.tokens[s] = there ? batch & 0xffff : 0;
  sources.choices[s] = there ? (u32)choices : 0;
}

// A team of a block, after resolve_peers(): waits for the words of the sources, and derives the
// first row of each source.
__device__ __forceinline__ void read_routing(const Operation& op, const Sources& sources, Team team) {
  const LowLatencyParameters& p = op.p;
  u32 local = (u32)p.local_experts;
  if constexpr (PUTS) {
    if (blockIdx.x == 0 && warp_id() == team.first) {
      relay_counters<false>(op, sources.areas, [](u32) { return 0u; });
    }
  }
  // One word a thread, so that all waits overlap.
  for (u32 i = team.thread(); i < (local + 1) * p.ranks; i += team.threads()) {
    u32 s = i / (local + 1);
    u32 l = i - s * (local + 1);
    // Of a source's words the first that a thread awaits is witnessed, where no relay does it.
    bool witness = blockIdx.x == 0 && l == 0 && !op.uses_puts(s);
    if (l == local) {
      read_batch(op, sources, s, witness);
      continue;
    }
    sources.first[l * sources.stride + s] = sources.areas[s] != nullptr ? read_count(op, s, l, witness) : 0;
  }
  team.sync();
  for (u32 l = team.thread(); l < local; l += team.threads()) {
    u32 sum = 0;
    for (u32 s = 0; s <= p.ranks; s++) {
      u32 rows = s < p.ranks && sources.choices[s] != 0 ? sources.first[l * sources.stride + s] : 0;
      if (rows == OTHER_ROWS) {
        // The same for all experts of this rank.
        sources.tokens[s] = 0;
        sources.choices[s] = 0;
        rows = 0;
      }
      sources.first[l * sources.stride + s] = sum;
      sum += rows;
    }
  }
  team.sync();
  if constexpr (INTERNODE) {
    for (u32 s = 0; s < p.ranks; s++) {
      if (serves_rank(op, s) && sources.tokens[s] > 0) {
        bool weights = DELIVERS_WEIGHTS && (p.kind & KIND_WEIGHTED);
        import_entries(op, s, sources.tokens[s], sources.choices[s], weights, team.thread(), team.threads());
      }
    }
  }
}

// Writes the row counts for the caller, and the batches for the combine: a team of one block.
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
    // A call may have fewer experts than the buffer, and statistics of these only: the others have no rows.
    if (p.cumulative != nullptr && rows != 0) {
      p.cumulative[l] += (int)rows;
    }
    count_tokens(p.control, p.ranks, l, rows);
  }
  for (u32 s = team.thread(); s < p.ranks; s += team.threads()) {
    p.batches[s] = sources.choices[s] << 16 | sources.tokens[s];
  }
}
