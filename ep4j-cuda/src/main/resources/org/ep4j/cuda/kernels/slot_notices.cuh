// What the warps of a block that fill slots leave to one that tells of them. While a block stores to
// memory of the host a system-wide fence takes it some 40 us: one warp waits for that, and the others
// fill the next slots meanwhile.
//
// In shared memory, a letter for each filling warp:
//   state    NOTICE_FULL: there is a slot to tell of; NOTICE_END: none will come any more. Written by the
//            filling warp behind the rest of the letter and all that it wrote to the slot, release;
//            read by the telling one, acquire.
//            NOTICE_EMPTY: written by the telling warp once it has told, release; the filling warp
//            waits for it, acquire. It does not wait for long: the telling warp goes on until all is over,
//            also when it cannot tell any more.
#pragma once
#include "internode.cuh"

// Warps that a block has, all in all.
constexpr u32 MAX_FILL_WARPS = 16;

enum NoticeState { NOTICE_EMPTY = 0, NOTICE_FULL = 1, NOTICE_END = 2 };

struct SlotNotice {
  u64 state;
  u64 number;  // of the slot
  u32 partner;
  u32 bytes;   // of it that hold something
};

// All threads of the block, before the first is written.
__device__ __forceinline__ void clear_notices(SlotNotice* notices) {
  if (threadIdx.x < MAX_FILL_WARPS) {
    notices[threadIdx.x].state = NOTICE_EMPTY;
  }
  __syncthreads();
}

// Whole filling warps. What was written to the slot must have been written: bulk stores waited for, and fenced
// from the proxy of bulk copies.
__device__ __forceinline__ void post_notice(SlotNotice& notice, NoticeState state, u64 number = 0,
                                             u32 partner = 0, u32 bytes = 0) {
  __syncwarp();
  if (lane_id() == 0) {
    while (load_acquire_block(&notice.state) != NOTICE_EMPTY) {
    }
    notice.number = number;
    notice.partner = partner;
    notice.bytes = bytes;
    store_release_block(&notice.state, state);
  }
  __syncwarp();
}

// The telling warp, of `count` filling ones.
__device__ __forceinline__ void notify_slots(const InternodeWorld& world, const WaitContext& w, SlotNotice* notices,
                                           u32 count) {
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
    }
    for (; full != 0; full &= full - 1) {
      SlotNotice& notice = notices[__ffs(full) - 1];
      const InternodePartner& partner = world.partner[notice.partner];
      notifying = notifying && check_submitted(w, (u32)partner.rank,
                              send_slot<false>(world, w, partner, notice.number, notice.bytes));
      __syncwarp();
      if (lane_id() == 0) {
        store_release_block(&notice.state, NOTICE_EMPTY);
      }
    }
  }
}
