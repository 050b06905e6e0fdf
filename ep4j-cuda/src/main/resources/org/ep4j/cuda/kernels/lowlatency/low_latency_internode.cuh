// Words and rows of internode ranks, and the waits for them; see low_latency.cuh.
//
// Reads of host memory cross PCIe: polls by many warps would delay the rows. So few warps poll it
// and import the values to the same place in this rank's own part, where all other warps wait as
// for an intranode source.
//
//   words    carry their number everywhere. Importer: one block an internode source, relaxed; mapped
//            weights: all blocks.
//   grants   mapped: the relay imports them with the first rows of a source, for the operations that
//            follow: relaxed, in front of its fence. A thread that finds an imported grant too old reads the
//            original. An acquire load of host memory takes 6 us, and 10 beside rows, before anything is
//            sent.
//   groups   of tokens whose rows have arrived: words behind a source's header, number. Writer: the relay,
//            one warp, release; waiters: warps that read rows, acquire.
//
//   mapped   words are written as to intranode ranks. For the words that the relay polls, also those of
//            intranode sources and of this rank, see low_latency_groups.cuh. There are no flags, not even
//            between intranode ranks: raising one would wait for all the GPU's stores to host memory.
//   puts     counters, see low_latency_puts.cuh; all groups at once. Rows of intranode ranks have flags.
//
// In memory of this GPU, `internode_state`:
//   words_ready[s]   puts: number of the last operation whose words of s have arrived. Writer: relay,
//                    release; waiter: the importer, acquire
//   progress[group][unit]  mapped, where blocks share a unit: number of them that have published the group
//                    in the running operation. Writers: publishing warps, atomic, after their fence; cleared
//                    by the last one, which fences too. No waiter.
#pragma once
#include "lowlatency/low_latency_puts.cuh"

// Independent of the number of tokens, because both ends must agree.
__device__ __forceinline__ u32 tokens_of_group(const Operation& op) {
  return ((u32)op.p.max_tokens + GROUPS - 1) / GROUPS;
}

__device__ __forceinline__ u32 groups_of(const Operation& op, u32 tokens) {
  u32 each = tokens_of_group(op);
  return (tokens + each - 1) / each;
}

__device__ __forceinline__ u64* words_ready(const Operation& op, u32 s) { return op.p.internode_state + s; }

// The word in an area that reports the arrival of a source's rows.
__device__ __forceinline__ u64* group_word(const Operation& op, char* area, u32 source, u32 group) {
  return op.header(area, source) + 1 + group;
}

// --- words -------------------------------------------------------------------------------------

// Whether this block imports the words of a rank and sends this rank's words to it.
__device__ __forceinline__ bool serves_rank(const Operation& op, u32 rank) {
  return op.is_internode(rank) && op.internode_index(rank) % gridDim.x == blockIdx.x;
}

// Waits until the words of an internode rank may be read where it wrote them.
__device__ __forceinline__ bool await_words(const Operation& op, u32 s) {
  if constexpr (PUTS) {
    u64 seen = load_acquire_gpu(words_ready(op, s));
    return await<WORD_FLAG>(op, words_ready(op, s), PHASE_COUNTS | IN_OWN_PART, s, op.number, seen);
  } else {
    return true;
  }
}

// Where an internode rank writes the word that belongs at `at` in this rank's own part.
__device__ __forceinline__ const u64* internode_word(const Operation& op, u32 s, const u64* at) {
  return (const u64*)(op.from(s) + ((const char*)at - op.own));
}

// Imports a word, `seen` at a first poll; false on abort.
__device__ __forceinline__ bool import_word(const Operation& op, u32 s, u64* at, u32& value, u64 seen,
                                            bool witness = false) {
  if (!await_value(op, internode_word(op, s, at), s, PHASE_COUNTS, value, seen, witness)) {
    return false;
  }
  store_relaxed_system(at, tagged_word(op, value));
  return true;
}

// Imports the entries of an internode source, and the weights of the entries for this rank; thread
// `thread` of `threads`.
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

// --- receiving ----------------------------------------------------------------------------------

// Puts: polls the counters for all warps of this GPU, one warp, one source a lane; it witnesses the waits. `tokens(s)`:
// number of tokens whose rows arrive from s.
template <bool ROWS, class Tokens>
__device__ __forceinline__ void relay_counters(const Operation& op, char* const* areas, Tokens tokens) {
  const LowLatencyParameters& p = op.p;
  for (u32 begin = 0; begin < p.ranks; begin += 32) {
    u32 s = begin + lane_id();
    u32 groups = s < p.ranks && ROWS ? groups_of(op, tokens(s)) : 1;
    bool open = s < p.ranks && op.is_internode(s) && areas[s] != nullptr && groups > 0;
    u64 since = nanoseconds();
    for (u32 polls = 1; __any_sync(0xffffffff, open); polls++) {
      u64 seen = 0;
      if (open && (ROWS ? rows_arrived(op, s, seen) : words_arrived(op, s, seen))) {
        for (u32 group = 0; group < groups; group++) {
          store_release_gpu(ROWS ? group_word(op, op.own, s, group) : words_ready(op, s), op.number);
        }
        if (p.waits != nullptr) {
          record_wait(op, s, since);
        }
        if (polls > 1) {
          charge_wait(p.control, s, since);
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

// Waits for the group word of a token.
__device__ __forceinline__ bool await_group(const Operation& op, u32 s, u32 token) {
  const u64* at = group_word(op, op.own, s, token / tokens_of_group(op));
  u64 seen = poll_word<WORD_FLAG>(at);
  return await<WORD_FLAG>(op, at, PHASE_ROWS | IN_OWN_PART, s, op.number, seen);
}
