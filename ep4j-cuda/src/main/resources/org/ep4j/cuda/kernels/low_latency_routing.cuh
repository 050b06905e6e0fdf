// What a dispatch tells the peers of its routing, and what a block learns of theirs.
#pragma once
#include "low_latency_waits.cuh"

// What a block knows; shared memory.
struct Sources {
  char** areas;  // [ranks] areas of the ranks that count, else null
  u32* tokens;   // [ranks] tokens of a source; 0 if it does not count
  u32* choices;  // [ranks] its choices a token; likewise
  u32* owners;   // [experts] as `placement`, if the kernel sends
  u32* first;    // [local experts, ranks + 1] first row of a source, and the rows of all
  u32 stride;

  __device__ __forceinline__ Sources(char* shared, const LowLatencyParameters& p)
      : areas((char**)shared),
        tokens((u32*)(areas + p.ranks)),
        choices(tokens + p.ranks),
        owners(choices + p.ranks),
        first(owners + p.experts),
        stride((u32)p.ranks + 1) {}

  // To be followed by a barrier.
  __device__ __forceinline__ void load_owners(const LowLatencyParameters& p) const {
    for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
      owners[e] = p.placement[e];
    }
  }

  // The rank of an expert if it counts, else NOBODY.
  __device__ __forceinline__ u32 rank_of(const LowLatencyParameters& p, i64 expert) const {
    if (expert < 0 || expert >= (i64)p.experts) {
      return NOBODY;
    }
    u32 rank = owners[expert] >> 16;
    return rank < p.ranks && areas[rank] != nullptr ? rank : NOBODY;
  }
};

__device__ __forceinline__ i64 id_of(const LowLatencyParameters& p, u64 at) {
  return p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
}

// The expert of a choice, or -1; a bad one is reported and counts as none.
__device__ __forceinline__ i64 good_expert(const Operation& op, u32 token, u32 k) {
  const LowLatencyParameters& p = op.p;
  u64 row = (u64)token * p.top_k;
  i64 id = id_of(p, row + k);
  if (id == -1) {
    return -1;
  }
  if (id < -1 || id >= (i64)p.experts) {
    bad_routing(op.watch, STATE_NO_SUCH_EXPERT, token, k, (u64)id);
    return -1;
  }
  for (u32 j = 0; j < k; j++) {
    if (id_of(p, row + j) == id) {
      bad_routing(op.watch, STATE_DUPLICATE, token, k, (u64)id);
      return -1;
    }
  }
  return id;
}

// Choices of this rank in their order, a run of them a warp, 32 at a time.
struct ChoiceRun {
  u32 at;
  u32 end;
  u32 top_k;

  __device__ __forceinline__ ChoiceRun(const LowLatencyParameters& p) : top_k((u32)p.top_k) {
    u32 all = (u32)(p.tokens * p.top_k);
    u32 share = ((all + (u32)p.count_warps - 1) / (u32)p.count_warps + 31) / 32 * 32;
    at = min(all, warp_id() * share);
    end = warp_id() < p.count_warps ? min(all, at + share) : at;
  }

  __device__ __forceinline__ bool more() const { return at < end; }
  __device__ __forceinline__ void next() { at += 32; }
  __device__ __forceinline__ bool mine() const { return at + lane_id() < end; }
  __device__ __forceinline__ u32 token() const { return (at + lane_id()) / top_k; }
  __device__ __forceinline__ u32 k() const { return (at + lane_id()) % top_k; }
};

// First walk: checks the choices, keeps them for the combine, and counts the experts of each run.
__device__ __forceinline__ void count_experts(const Operation& op, const Sources& sources,
                                              u32* counters) {
  const LowLatencyParameters& p = op.p;
  for (u32 i = threadIdx.x; i < p.count_warps * p.experts; i += blockDim.x) {
    counters[i] = 0;
  }
  __syncthreads();
  for (ChoiceRun run(p); run.more(); run.next()) {
    if (run.mine()) {
      i64 e = good_expert(op, run.token(), run.k());
      u32 rank = sources.rank_of(p, e);
      p.choices[op.choice_slot(run.token(), run.k())] = pack_choice(rank, e);
      if (rank != NOBODY) {
        atomicAdd(&counters[warp_id() * p.experts + e], 1);
      }
    }
  }
  __syncthreads();
}

// Turns the counters of the runs into what comes before them, and tells each rank the sums.
__device__ __forceinline__ void tell_counts(const Operation& op, const Sources& sources,
                                            u32* counters) {
  const LowLatencyParameters& p = op.p;
  for (u32 e = threadIdx.x; e < p.experts; e += blockDim.x) {
    u32 sum = 0;
    for (u32 w = 0; w < p.count_warps; w++) {
      u32 count = counters[w * p.experts + e];
      counters[w * p.experts + e] = sum;
      sum += count;
    }
    u32 rank = sources.rank_of(p, e);
    if (rank != NOBODY) {
      store_relaxed_system(op.counts(sources.areas[rank], (u32)p.rank) + (sources.owners[e] & 0xffff),
                           numbered(op, sum));
    }
  }
  __syncthreads();
}

// Second walk: tells every rank what each choice means to it.
__device__ __forceinline__ void tell_entries(const Operation& op, const Sources& sources,
                                             u32* counters) {
  const LowLatencyParameters& p = op.p;
  for (ChoiceRun run(p); run.more(); run.next()) {
    // The ids are in the first-level cache by now; what was kept of them is not.
    i64 expert = run.mine() ? good_expert(op, run.token(), run.k()) : -1;
    u32 rank = sources.rank_of(p, expert);
    bool sent = rank != NOBODY;
    u32 same = __match_any_sync(0xffffffff, sent ? (u32)expert : NO_ENTRY);
    u32* counter = &counters[warp_id() * p.experts + (sent ? expert : 0)];
    u32 before = sent ? *counter + __popc(same & ((1u << lane_id()) - 1)) : 0;
    __syncwarp();
    if (sent && (u32)__ffs(same) == lane_id() + 1) {
      *counter += __popc(same);
    }
    __syncwarp();
    if (run.mine()) {
      u32 local = sent ? sources.owners[expert] & 0xffff : 0;
      for (u32 r = 0; r < p.ranks; r++) {
        if (sources.areas[r] != nullptr) {
          u32 entry = rank == r ? local << 16 | before : NO_ENTRY;
          store_relaxed_system(op.entries(sources.areas[r], (u32)p.rank, run.token()) + run.k(),
                               numbered(op, entry));
        }
      }
    }
  }
}

// All threads of one block. `counters` is shared memory: [count_warps, experts].
__device__ __forceinline__ void tell_routing(const Operation& op, const Sources& sources,
                                             u32* counters) {
  const LowLatencyParameters& p = op.p;
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (sources.areas[r] != nullptr) {
      u32 batch = (u32)(p.kind << 24 | p.top_k << 16 | p.tokens);
      store_relaxed_system(op.header(sources.areas[r], (u32)p.rank), numbered(op, batch));
    }
  }
  count_experts(op, sources, counters);
  tell_counts(op, sources, counters);
  tell_entries(op, sources, counters);
}

// What a source dispatches; one thread.
__device__ __forceinline__ void learn_batch(const Operation& op, const Sources& sources, u32 s) {
  const LowLatencyParameters& p = op.p;
  u32 batch = 0;
  bool there = sources.areas[s] != nullptr &&
               await_value(op, op.header(op.own, s), s, PHASE_COUNTS, batch);
  if (there && batch >> 24 != p.kind) {
    op.watch.record->expected = p.kind;
    op.watch.record->peer = s;
    bad_routing(op.watch, STATE_OTHER_KIND, 0, 0, batch >> 24);
    there = false;
  }
  sources.tokens[s] = there ? batch & 0xffff : 0;
  sources.choices[s] = there ? batch >> 16 & 0xff : 0;
}

// All threads of a block, which has looked around: waits for what the sources tell, and finds where
// their rows begin.
__device__ __forceinline__ void learn_routing(const Operation& op, const Sources& sources) {
  const LowLatencyParameters& p = op.p;
  u32 local = (u32)p.local_experts;
  // In block 0 the counters of what was told lie where the first rows will.
  __syncthreads();
  // One word a thread, so that all are awaited at once.
  for (u32 i = threadIdx.x; i < (local + 1) * p.ranks; i += blockDim.x) {
    u32 s = i / (local + 1);
    u32 l = i - s * (local + 1);
    if (l == local) {
      learn_batch(op, sources, s);
      continue;
    }
    u32 rows = 0;
    if (sources.areas[s] != nullptr) {
      await_value(op, op.counts(op.own, s) + l, s, PHASE_COUNTS, rows);
    }
    sources.first[l * sources.stride + s] = rows;
  }
  __syncthreads();
  for (u32 l = threadIdx.x; l < local; l += blockDim.x) {
    u32 sum = 0;
    for (u32 s = 0; s <= p.ranks; s++) {
      u32 rows = s < p.ranks && sources.choices[s] != 0 ? sources.first[l * sources.stride + s] : 0;
      sources.first[l * sources.stride + s] = sum;
      sum += rows;
    }
  }
  __syncthreads();
}

// What the caller is told of the rows, and what the combine needs: all threads of one block.
__device__ __forceinline__ void tell_caller(const Operation& op, const Sources& sources) {
  const LowLatencyParameters& p = op.p;
  for (u32 i = threadIdx.x; i < p.local_experts * p.ranks; i += blockDim.x) {
    u32 l = i / (u32)p.ranks;
    const u32* first = sources.first + l * sources.stride + (i - l * (u32)p.ranks);
    p.ranges[i] = (u64)first[0] << 32 | (first[1] - first[0]);
  }
  for (u32 l = threadIdx.x; l < p.local_experts; l += blockDim.x) {
    u32 rows = sources.first[l * sources.stride + p.ranks];
    p.row_counts[l] = (int)rows;
    if (p.cumulative != nullptr) {
      p.cumulative[l] += (int)rows;
    }
  }
  for (u32 s = threadIdx.x; s < p.ranks; s += blockDim.x) {
    p.batches[s] = sources.choices[s] << 16 | sources.tokens[s];
  }
}
