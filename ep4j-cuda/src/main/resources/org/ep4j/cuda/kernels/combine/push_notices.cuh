// The words of groups whose sums a pipeline has pushed. A fence towards all GPUs takes long, so one
// warp of the block fences for all and the adding warps do not wait for it.
//
// Shared memory, of a pipeline; ordered by fences, as each entry says:
//   words[i]     of the i-th group, modulo NOTICES. Writer: the first warp, before it brings the
//                group's rows; reader: the notifying warp, once the group is written
//   groups       of the pipeline. Writer: the first warp at its end; reader: the notifying warp
//   written[a]   groups that adding warp a has written. Writer: its lane 0, behind a fence of the block
//                after the stores of all lanes; reader: the notifying warp, before a system-wide
//                fence, behind which it raises the word (relaxed)
//   raised       groups whose words are raised. Writer: the notifying warp; reader: the first warp,
//                which keeps at most NOTICES groups ahead of it
// Neither wait has a deadline. The first warp waits here for the notifying warp, which waits for adding
// warps, which wait for bulk loads of rows that are there: a group has no row of another rank.
#pragma once
#include "common/protocol.cuh"

constexpr u32 NOTICES = 16;
constexpr u32 MAX_ADDING_WARPS = 16;
constexpr u32 NOT_KNOWN = ~0u;

struct PushNotices {
  u64* words[NOTICES];
  volatile u32 groups;
  volatile u32 raised;
  volatile u32 written[MAX_ADDING_WARPS];

  // One warp; then a barrier of the block.
  __device__ __forceinline__ void init() {
    if (lane_id() < MAX_ADDING_WARPS) {
      written[lane_id()] = 0;
    }
    if (is_first_lane()) {
      groups = NOT_KNOWN;
      raised = 0;
    }
  }

  // The first warp: names the word of group `i`.
  __device__ __forceinline__ void name(u32 i, u64* word) {
    while (__shfl_sync(0xffffffff, i - raised, 0) >= NOTICES) {
    }
    if (is_first_lane()) {
      words[i % NOTICES] = word;
    }
  }

  // An adding warp: it has written `n` groups.
  __device__ __forceinline__ void publish(u32 warp, u32 n) {
    __syncwarp();
    if (is_first_lane()) {
      __threadfence_block();
      written[warp] = n;
    }
  }

  // The notifying warp: groups that `warps` adding warps have written.
  __device__ __forceinline__ u32 count_written(u32 warps) const {
    u32 mine = lane_id() < warps ? written[lane_id()] : NOT_KNOWN;
    return __reduce_min_sync(0xffffffff, mine);
  }

  // The notifying warp, behind a fence: raises the words of the groups from `first` to `end`.
  __device__ __forceinline__ void raise(u32 first, u32 end, u64 epoch) {
    for (u32 i = first + lane_id(); i < end; i += 32) {
      store_relaxed_system(words[i % NOTICES], epoch);
    }
    __syncwarp();
    if (is_first_lane()) {
      __threadfence_block();
      raised = end;
    }
  }
};

// Raises the words of all groups of the pipelines, which have `warps` adding warps each; one warp.
template <u32 COUNT>
__device__ __forceinline__ void notify_groups(const WaitContext& w, PushNotices (&notices)[COUNT],
                                              u32 warps) {
  u32 raised[COUNT] = {};
  for (bool open = true; open;) {
    u32 written[COUNT];
    bool some = false;
    open = false;
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) {
      open = raised[i] != __shfl_sync(0xffffffff, notices[i].groups, 0) || open;
      written[i] = notices[i].count_written(warps);
      some = written[i] != raised[i] || some;
    }
    if (some) {
      __syncwarp();
      __threadfence_system();
#pragma unroll
      for (u32 i = 0; i < COUNT; i++) {
        notices[i].raise(raised[i], written[i], w.epoch);
        raised[i] = written[i];
      }
    }
  }
}
