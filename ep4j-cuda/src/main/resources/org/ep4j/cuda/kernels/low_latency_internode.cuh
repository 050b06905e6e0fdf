// What far ranks tell and how it is awaited; see low_latency.cuh.
//
// Memory of the host is far away: looks of many warps at it would hold up the rows. So few warps look there,
// and leave what they have seen at the same place in this rank's own part, where all others wait as if the
// source were near.
//
//   words    carry their number wherever they are. One block a far source brings them, each relaxed;
//            mapped weights all blocks.
//   grants   mapped: the relay brings them with the first rows of a source, for the operations that
//            follow: relaxed, in front of its fence. Who finds one too old there looks where it was
//            written. A look at the host that acquires takes 6 us, and 10 beside rows, in front of all
//            that is sent.
//   groups   of tokens whose rows have come: words behind a source's header, number; whoever reads
//            rows waits for them, acquire. The relay raises them, one warp, release.
//
//   mapped   words are written as to near ranks. What the relay looks at, of near sources and of this rank,
//            too, is told in low_latency_groups.cuh. There are no flags, for near ranks neither: raising
//            one would wait for all that the GPU stores to memory of the host.
//   puts     counters, see low_latency_puts.cuh; all groups at once. Rows of near ranks have flags.
//
// In memory of this GPU, `internode_state`:
//   told[s]          puts: number of the last operation whose words of s are there: relay, release;
//                    whoever brings them waits for it, acquire
//   progress[group][unit]  mapped, where blocks share a unit: those of them that have told the group in
//                    the running operation: atomic, behind the fence of the telling warp; cleared by
//                    the last, who fences too. Nobody waits for it.
#pragma once
#include "low_latency_waits.cuh"

// Number of a far rank among the far ranks.
__device__ __forceinline__ u32 internode_index(const Operation& op, u32 rank) {
  return rank < op.p.node_first ? rank : rank - (u32)op.p.node_ranks;
}

#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
#include "low_latency_puts.cuh"
#endif

// Both ends must agree, so it does not depend on how many tokens there are.
__device__ __forceinline__ u32 tokens_of_group(const Operation& op) {
  return ((u32)op.p.max_tokens + GROUPS - 1) / GROUPS;
}

__device__ __forceinline__ u32 groups_of(const Operation& op, u32 tokens) {
  u32 each = tokens_of_group(op);
  return (tokens + each - 1) / each;
}

__device__ __forceinline__ u64* words_ready(const Operation& op, u32 s) { return op.p.internode_state + s; }

// Where it is said, in an area of a rank, that rows of a source have come.
__device__ __forceinline__ u64* group_word(const Operation& op, char* area, u32 source, u32 group) {
  return op.header(area, source) + 1 + group;
}

// --- words -------------------------------------------------------------------------------------

// Whether this block brings the words of a rank, and tells it those of this one.
__device__ __forceinline__ bool serves_rank(const Operation& op, u32 rank) {
  return op.is_internode(rank) && internode_index(op, rank) % gridDim.x == blockIdx.x;
}

// Words of a far rank may be looked at where it wrote them.
__device__ __forceinline__ bool await_words(const Operation& op, u32 s) {
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
  u64 seen = load_acquire_gpu(words_ready(op, s));
  return await<WORD_FLAG>(op, words_ready(op, s), PHASE_COUNTS, s, op.number, seen);
#else
  return true;
#endif
}

// Where a far rank writes the word that belongs at `at` in this rank's own part.
__device__ __forceinline__ const u64* internode_word(const Operation& op, u32 s, const u64* at) {
  return (const u64*)(op.from(s) + ((const char*)at - op.own));
}

// Brings a word that has been looked at already; false when waiting for it is vain.
__device__ __forceinline__ bool import_word(const Operation& op, u32 s, u64* at, u32& value, u64 seen) {
  if (!await_value(op, internode_word(op, s, at), s, PHASE_COUNTS, value, seen)) {
    return false;
  }
  store_relaxed_system(at, tagged_word(op, value));
  return true;
}

// Brings the entries of a far source, and the weights of those that are for this rank; some threads, of
// which this is one.
__device__ __forceinline__ void import_entries(const Operation& op, u32 s, u32 tokens, u32 choices,
                                              bool weights, u32 thread, u32 threads) {
  constexpr u32 UNROLL = 4;
  u32 end = tokens * choices;
  if (!await_words(op, s)) {
    return;
  }
  for (u32 first = thread; first < end; first += UNROLL * threads) {
    u64* at[UNROLL];
    u64 seen[UNROLL];
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      u32 i = first + j * threads;
      at[j] = op.entries(op.own, s, i / choices) + i % choices;
      seen[j] = i < end ? poll_word<WORD_TAGGED>(internode_word(op, s, at[j])) : 0;
    }
#pragma unroll
    for (u32 j = 0; j < UNROLL; j++) {
      u32 i = first + j * threads;
      u32 value = NO_ENTRY;
      if (i < end && import_word(op, s, at[j], value, seen[j]) && weights && value != NO_ENTRY) {
        u64* weight = op.weights(op.own, s, i / choices) + i % choices;
        import_word(op, s, weight, value, poll_word<WORD_TAGGED>(internode_word(op, s, weight)));
      }
    }
  }
}

// --- rows that come ----------------------------------------------------------------------------

#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
// Looks for all warps of this GPU: one warp, a source a lane. `tokens(s)` are those whose rows come from s.
template <bool ROWS, class Tokens>
__device__ __forceinline__ void relay(const Operation& op, char* const* areas, Tokens tokens) {
  const LowLatencyParameters& p = op.p;
  for (u32 begin = 0; begin < p.ranks; begin += 32) {
    u32 s = begin + lane_id();
    u32 groups = s < p.ranks && ROWS ? groups_of(op, tokens(s)) : 1;
    bool open = s < p.ranks && op.is_internode(s) && areas[s] != nullptr && groups > 0;
    u64 since = p.waits == nullptr ? 0 : nanoseconds();
    for (u32 polls = 1; __any_sync(0xffffffff, open); polls++) {
      u64 seen = 0;
      if (open && (ROWS ? rows_arrived(op, s, seen) : words_arrived(op, s, seen))) {
        for (u32 group = 0; group < groups; group++) {
          store_release_gpu(ROWS ? group_word(op, op.own, s, group) : words_ready(op, s), op.number);
        }
        if (p.waits != nullptr) {
          record_wait(op, s, since);
        }
        open = false;
      } else if (open && polls % 16 == 0 &&
                 (abort_if_lost(op, s, seen) ||
                  should_abort_or_mask(op, polls << 8, ROWS ? PHASE_ROWS : PHASE_COUNTS, s, op.number, seen))) {
        open = false;
      }
    }
  }
}
#endif

// Waits for the group of a token.
__device__ __forceinline__ bool await_group(const Operation& op, u32 s, u32 token) {
  const u64* at = group_word(op, op.own, s, token / tokens_of_group(op));
  u64 seen = poll_word<WORD_FLAG>(at);
  return await<WORD_FLAG>(op, at, PHASE_ROWS, s, op.number, seen);
}

#if EP4J_INTERNODE == EP4J_INTERNODE_MAPPED
#include "low_latency_groups.cuh"
#endif
