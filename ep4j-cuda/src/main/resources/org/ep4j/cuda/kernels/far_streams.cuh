// The streams between a rank and its partners in other nodes: tokens travel in chunks of as many as
// share a slot, the tokens c * chunk_tokens and so on being chunk c of their rank, to every node, also
// where none of them is wanted. So all know how many slots an operation takes without being told
// more than the tokens of a rank; the numbers of an operation's slots follow those of the one before.
#pragma once
#include "far.cuh"

// Chunks of so many tokens: one at least, so that something crosses in every operation.
__device__ __forceinline__ u32 chunks_of(u64 tokens, u64 chunk_tokens) {
  return max(1u, (u32)((tokens + chunk_tokens - 1) / chunk_tokens));
}

// The partners of this rank by what they do, in shared memory.
struct Streams {
  u32* takers;  // [partners] numbers of partners that take tokens of this rank
  u32* givers;  // [partners] numbers of partners that give theirs
  u32* chunks;  // [partners] chunks of each giver
  u32* counts;  // [2] takers, givers
  u32 own;      // chunks of this rank

  static __device__ __forceinline__ u64 words(u64 partners) { return 3 * partners + 2; }

  // All threads; tokens(rank) tells the tokens of a giver.
  template <class Tokens>
  __device__ __forceinline__ Streams(const FarWorld& far, u32* words, u64 own_tokens,
                                     u64 chunk_tokens, Tokens tokens)
      : takers(words),
        givers(words + far.partners),
        chunks(words + 2 * far.partners),
        counts(words + 3 * far.partners),
        own(chunks_of(own_tokens, chunk_tokens)) {
    if (warp_id() == 0) {
      u32 taking = 0;
      u32 giving = 0;
      for (u32 first = 0; first < far.partners; first += 32) {
        u32 q = first + lane_id();
        bool takes = q < far.partners && far.partner[q].takes != 0;
        bool gives = q < far.partners && far.partner[q].gives != 0;
        u32 takes_mask = __ballot_sync(0xffffffff, takes);
        u32 gives_mask = __ballot_sync(0xffffffff, gives);
        u32 below = (1u << lane_id()) - 1;
        if (takes) {
          takers[taking + __popc(takes_mask & below)] = q;
        }
        if (gives) {
          givers[giving + __popc(gives_mask & below)] = q;
        }
        taking += __popc(takes_mask);
        giving += __popc(gives_mask);
      }
      if (lane_id() == 0) {
        counts[0] = taking;
        counts[1] = giving;
      }
    }
    __syncthreads();
    for (u32 g = threadIdx.x; g < counts[1]; g += blockDim.x) {
      chunks[g] = chunks_of(tokens((u32)far.partner[givers[g]].rank), chunk_tokens);
    }
    __syncthreads();
  }

  __device__ __forceinline__ u32 most_chunks() const {
    u32 most = 0;
    for (u32 g = 0; g < counts[1]; g++) {
      most = max(most, chunks[g]);
    }
    return most;
  }

  // All threads of the last block: own chunks went to the takers and the givers' came from them, or,
  // `back`, the other way around.
  __device__ __forceinline__ void advance(const FarWorld& far, bool back) const {
    u64* outward = back ? far.taken : far.sent;
    u64* inward = back ? far.sent : far.taken;
    for (u32 i = threadIdx.x; i < counts[0]; i += blockDim.x) {
      outward[takers[i]] += own;
    }
    for (u32 g = threadIdx.x; g < counts[1]; g += blockDim.x) {
      inward[givers[g]] += chunks[g];
    }
  }
};

// A copy for a block: it is asked often. All threads.
__device__ __forceinline__ void take_world(FarWorld& to, const FarWorld* from) {
  for (u32 i = threadIdx.x; i < sizeof(FarWorld) / 8; i += blockDim.x) {
    ((u64*)&to)[i] = ((const u64*)from)[i];
  }
  __syncthreads();
}
