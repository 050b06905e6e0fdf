// Slot notifications inside a block: filling warps hand full slots to one notifying warp. While a
// block stores to host memory a system-wide fence takes it some 40 us: the notifying warp waits for
// the fence, and the filling warps fill the next slots meanwhile.
//
// One notice for each filling warp, in shared memory:
//   state    NOTICE_FULL: a slot is ready; NOTICE_END: the last notice. Writer: the filling warp, after
//            the rest of the notice and all its writes to the slot, release; waiter: the notifying
//            warp, acquire.
//            NOTICE_EMPTY. Writer: the notifying warp after it has sent the slot, release; waiter: the
//            filling warp, acquire. This wait is bounded: the notifying warp runs until every filling
//            warp has posted NOTICE_END, also after a send has failed.
#pragma once
#include "internode/internode.cuh"

// Maximum warps of a block.
constexpr u32 MAX_FILL_WARPS = 16;

enum NoticeState { NOTICE_EMPTY = 0, NOTICE_FULL = 1, NOTICE_END = 2 };

struct SlotNotice {
  u64 state;
  u64 number;  // of the slot
  u32 partner;
  u32 bytes;   // bytes of the slot in use
};

// All threads of the block, before the first notice is posted.
__device__ __forceinline__ void clear_notices(SlotNotice* notices) {
  if (threadIdx.x < MAX_FILL_WARPS) {
    notices[threadIdx.x].state = NOTICE_EMPTY;
  }
  __syncthreads();
}

// Whole filling warps. The slot must be complete: bulk stores waited for and fenced from the
// asynchronous proxy.
__device__ __forceinline__ void post_notice(SlotNotice& notice, NoticeState state, u64 number = 0,
                                             u32 partner = 0, u32 bytes = 0) {
  __syncwarp();
  if (is_first_lane()) {
    while (load_acquire_block(&notice.state) != NOTICE_EMPTY) {
    }
    notice.number = number;
    notice.partner = partner;
    notice.bytes = bytes;
    store_release_block(&notice.state, state);
  }
  __syncwarp();
}

// What was filled in may be sent.
struct AnySlot {
  __device__ __forceinline__ bool operator()() const { return true; }
};

// The notifying warp, for `count` filling warps. `may_send()`, all lanes, behind a fence after the
// slots were filled: false if what they hold must not be sent; it has then aborted the operation.
template <class MaySend = AnySlot>
__device__ __forceinline__ void notify_slots(const InternodeWorld& world, const WaitContext& w, SlotNotice* notices,
                                           u32 count, MaySend may_send = {}) {
  bool notifying = true;
  u32 over = 0;
  while (over != (1u << count) - 1) {
    u64 state = lane_id() < count ? load_acquire_block(&notices[lane_id()].state) : NOTICE_EMPTY;
    over = __ballot_sync(0xffffffff, state == NOTICE_END);
    u32 full = __ballot_sync(0xffffffff, state == NOTICE_FULL);
    if (full != 0) {
      __syncwarp();
      __threadfence_system();
      __syncwarp();
      notifying = notifying && may_send();
    }
    for (; full != 0; full &= full - 1) {
      SlotNotice& notice = notices[__ffs(full) - 1];
      const InternodePartner& partner = world.partner[notice.partner];
      notifying = notifying && check_submitted(w, (u32)partner.rank,
                              send_slot<false>(world, w, partner, notice.number, notice.bytes));
      __syncwarp();
      if (is_first_lane()) {
        store_release_block(&notice.state, NOTICE_EMPTY);
      }
    }
  }
}
