// What the warps of a block that fill slots leave to one that tells of them. While a block stores to
// memory of the host a system-wide fence takes it some 40 us: one warp waits for that, and the others
// fill the next slots meanwhile.
//
// In shared memory, a letter for each filling warp:
//   state    LETTER_FULL: there is a slot to tell of; LETTER_OVER: none will come any more. Written by the
//            filling warp behind the rest of the letter and all that it wrote to the slot, release;
//            read by the telling one, acquire.
//            LETTER_EMPTY: written by the telling warp once it has told, release; the filling warp
//            waits for it, acquire. It does not wait for long: the telling warp goes on until all is over,
//            also when it cannot tell any more.
#pragma once
#include "far.cuh"

// Warps that a block has, all in all.
constexpr u32 MOST_FILLING = 16;

enum LetterState { LETTER_EMPTY = 0, LETTER_FULL = 1, LETTER_OVER = 2 };

struct Letter {
  u64 state;
  u64 number;  // of the slot
  u32 partner;
  u32 bytes;   // of it that hold something
};

// All threads of the block, before the first is written.
__device__ __forceinline__ void clear_letters(Letter* letters) {
  if (threadIdx.x < MOST_FILLING) {
    letters[threadIdx.x].state = LETTER_EMPTY;
  }
  __syncthreads();
}

// Whole filling warps. What was written to the slot must have been written: bulk stores waited for, and fenced
// from the proxy of bulk copies.
__device__ __forceinline__ void write_letter(Letter& letter, LetterState state, u64 number = 0,
                                             u32 partner = 0, u32 bytes = 0) {
  __syncwarp();
  if (lane_id() == 0) {
    while (load_acquire_block(&letter.state) != LETTER_EMPTY) {
    }
    letter.number = number;
    letter.partner = partner;
    letter.bytes = bytes;
    store_release_block(&letter.state, state);
  }
  __syncwarp();
}

// The telling warp, of `count` filling ones.
__device__ __forceinline__ void tell_slots(const FarWorld& far, const Watch& w, Letter* letters,
                                           u32 count) {
  bool tells = true;
  u32 over = 0;
  while (over != (1u << count) - 1) {
    u64 state = lane_id() < count ? load_acquire_block(&letters[lane_id()].state) : LETTER_EMPTY;
    over = __ballot_sync(0xffffffff, state == LETTER_OVER);
    u32 full = __ballot_sync(0xffffffff, state == LETTER_FULL);
    if (full != 0) {
      __syncwarp();
      __threadfence_system();
      __syncwarp();
    }
    for (; full != 0; full &= full - 1) {
      Letter& letter = letters[__ffs(full) - 1];
      const FarPartner& partner = far.partner[letter.partner];
      tells = tells && pushed(w, (u32)partner.rank,
                              send_slot<false>(far, w, partner, letter.number, letter.bytes));
      __syncwarp();
      if (lane_id() == 0) {
        store_release_block(&letter.state, LETTER_EMPTY);
      }
    }
  }
}
