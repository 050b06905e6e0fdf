// What far ranks tell and how it is awaited; see low_latency.cuh.
//
// Memory of the host is far away: looks of many warps at it would hold up the rows. So there are no flags
// of rows between nodes. A source tells a far rank that all its words of an operation are there, and that
// all its rows of a group of tokens are; one warp of the receiver looks, and says so to the others in
// memory of the GPU.
//
//   mapped   words behind a header in the far part: number. The first says that the words are there, one
//            thread writes it behind a barrier of all that wrote them. One for each group says that the
//            rows are: the warp that has done the last piece of the group writes it, warps count
//            what they have done in `progress`. All are written with system-wide release; the relay
//            waits for them, acquire.
//   puts     counters, see low_latency_posts.cuh; all groups at once
//
// In memory of this GPU, `far_state`:
//   told[s]         number of the last operation whose words of s are there: relay, release; whoever
//                   reads such words waits for it, acquire
//   came[s][group]  the same of its rows
//   progress[s][g]  pieces of the running operation that are done, for far source s (a dispatch: this
//                   rank): atomic, behind a fence of whoever wrote one; cleared by whoever does the last,
//                   who fences too. Nobody waits for it.
#pragma once
#include "low_latency_waits.cuh"
#if EP4J_FAR == EP4J_FAR_PUTS
#include "low_latency_posts.cuh"
#else
// The host finds out who is gone.
__device__ __forceinline__ bool is_cut_off(const Operation&, u32, u64) { return false; }
#endif

__device__ __forceinline__ u32 tokens_of_group(u32 tokens) { return (tokens + GROUPS - 1) / GROUPS; }

__device__ __forceinline__ u64* told_by(const Operation& op, u32 s) {
  return op.p.far_state + s * (1 + GROUPS);
}

__device__ __forceinline__ u64* came_from(const Operation& op, u32 s, u32 group) {
  return told_by(op, s) + 1 + group;
}

__device__ __forceinline__ u64* progress_of(const Operation& op, u32 s, u32 group) {
  return told_by(op, (u32)op.p.ranks) + s * GROUPS + group;
}

// --- receiving ---------------------------------------------------------------------------------

// Whether the words, or the rows of a group, of a far source have come.
template <bool ROWS>
__device__ __forceinline__ bool have_come(const Operation& op, u32 s, u32 group, u64& seen) {
#if EP4J_FAR == EP4J_FAR_PUTS
  return ROWS ? rows_have_come(op, s, seen) : words_have_come(op, s, seen);
#else
  seen = load_acquire_system(op.header(op.from(s), s) + (ROWS ? 2 + group : 1));
  return seen == op.number;
#endif
}

// Looks for all warps of this GPU: one warp. `tokens(s)` are those whose rows come from s.
template <bool ROWS, class Tokens>
__device__ __forceinline__ void relay(const Operation& op, char* const* areas, Tokens tokens) {
  const LowLatencyParameters& p = op.p;
  constexpr u32 EACH = ROWS ? GROUPS : 1;
  for (u32 begin = 0; begin < p.ranks * EACH; begin += 32) {
    u32 s = (begin + lane_id()) / EACH;
    u32 group = (begin + lane_id()) % EACH;
    bool open = s < p.ranks && op.is_far(s) && areas[s] != nullptr &&
                (!ROWS || group * tokens_of_group(tokens(s)) < tokens(s));
    u64 since = p.waits == nullptr ? 0 : nanoseconds();
    for (u32 polls = 1; __any_sync(0xffffffff, open); polls++) {
      u64 seen = 0;
      if (open && have_come<ROWS>(op, s, group, seen)) {
        store_release_gpu(ROWS ? came_from(op, s, group) : told_by(op, s), op.number);
        if (p.waits != nullptr) {
          note_wait(op, s, since);
        }
        open = false;
      } else if (open && polls % 16 == 0 &&
                 (is_cut_off(op, s, seen) ||
                  vain_for(op, polls << 8, ROWS ? PHASE_ROWS : PHASE_COUNTS, s, op.number, seen))) {
        open = false;
      }
    }
  }
}

// Waits for what the relay says.
__device__ __forceinline__ bool await_told(const Operation& op, u32 s) {
  u64 seen = load_acquire_gpu(told_by(op, s));
  return await<LOOK_FLAG>(op, told_by(op, s), PHASE_COUNTS, s, op.number, seen);
}

__device__ __forceinline__ bool await_came(const Operation& op, u32 s, u32 token, u32 tokens) {
  const u64* at = came_from(op, s, token / tokens_of_group(tokens));
  u64 seen = load_acquire_gpu(at);
  return await<LOOK_FLAG>(op, at, PHASE_ROWS, s, op.number, seen);
}

// --- sending, mapped ---------------------------------------------------------------------------

// The words for a far rank are there, its area says where; one thread, behind a barrier of those who
// wrote them.
__device__ __forceinline__ void tell_far(const Operation& op, char* area) {
  store_release_system(op.header(area, (u32)op.p.rank) + 1, op.number);
}

// A piece of a token among `tokens` is done, one of those that belong to `owner`; one warp. True on
// the first lane of the warp that has done the last of the group.
__device__ __forceinline__ bool finish_piece(const Operation& op, u32 owner, u32 token, u32 tokens,
                                             bool wrote) {
  u32 each = tokens_of_group(tokens);
  u32 group = token / each;
  u32 all = min(each, tokens - group * each) * pieces_of(op.p);
  __syncwarp();
  if (lane_id() != 0) {
    return false;
  }
  u64* progress = progress_of(op, owner, group);
  if (wrote) {
    __threadfence_system();
  }
  if (atomicAdd(progress, 1ull) + 1 != all) {
    return false;
  }
  *progress = 0;
  __threadfence_system();
  return true;
}

// All rows of the token's group are there; the thread that knows.
__device__ __forceinline__ void say_they_came(const Operation& op, char* area, u32 token, u32 tokens) {
  u32 group = token / tokens_of_group(tokens);
  store_release_system(op.header(area, (u32)op.p.rank) + 2 + group, op.number);
}
