// Chunks and slot numbers between a rank and its partners on other nodes. The tokens from c *
// chunk_tokens on that share a slot are chunk c of their rank. Every chunk goes to every node, even
// if the node wants none of its tokens. Invariant: all ranks derive the number of slots of an
// operation from the token counts alone; slot numbers continue from the previous operation.
#pragma once
#include "internode/internode.cuh"

// Number of chunks: at least one, so that every operation sends a slot to every node.
__device__ __forceinline__ u32 chunks_of(u64 tokens, u64 chunk_tokens) {
  return max(1u, (u32)((tokens + chunk_tokens - 1) / chunk_tokens));
}

// The partners of this rank by direction, in shared memory.
struct ChunkSchedule {
  u32* receivers;  // [partners] numbers of partners that receive tokens of this rank
  u32* senders;  // [partners] numbers of partners that send tokens to this rank
  u32* chunks;  // [partners] chunks of each sender
  u32* counts;  // [2] receivers, senders
  u32 own;      // chunks of this rank

  static __device__ __forceinline__ u64 words(u64 partners) { return 3 * partners + 2; }

  // All threads; tokens(rank) is the number of tokens of a sender.
  template <class Tokens>
  __device__ __forceinline__ ChunkSchedule(const InternodeWorld& world, u32* words, u64 own_tokens,
                                     u64 chunk_tokens, Tokens tokens)
      : receivers(words),
        senders(words + world.partners),
        chunks(words + 2 * world.partners),
        counts(words + 3 * world.partners),
        own(chunks_of(own_tokens, chunk_tokens)) {
    if (warp_id() == 0) {
      u32 taking = 0;
      u32 senders_found = 0;
      for (u32 first = 0; first < world.partners; first += 32) {
        u32 q = first + lane_id();
        bool is_receiver = q < world.partners && world.partner[q].is_receiver != 0;
        bool is_sender = q < world.partners && world.partner[q].is_sender != 0;
        u32 takes_mask = __ballot_sync(0xffffffff, is_receiver);
        u32 senders_mask = __ballot_sync(0xffffffff, is_sender);
        u32 below = (1u << lane_id()) - 1;
        if (is_receiver) {
          receivers[taking + __popc(takes_mask & below)] = q;
        }
        if (is_sender) {
          senders[senders_found + __popc(senders_mask & below)] = q;
        }
        taking += __popc(takes_mask);
        senders_found += __popc(senders_mask);
      }
      if (is_first_lane()) {
        counts[0] = taking;
        counts[1] = senders_found;
      }
    }
    __syncthreads();
    for (u32 g = threadIdx.x; g < counts[1]; g += blockDim.x) {
      chunks[g] = chunks_of(tokens((u32)world.partner[senders[g]].rank), chunk_tokens);
    }
    __syncthreads();
  }

  __device__ __forceinline__ u32 max_chunks() const {
    u32 largest = 0;
    for (u32 g = 0; g < counts[1]; g++) {
      largest = max(largest, chunks[g]);
    }
    return largest;
  }

  // All threads of the last block: advances the slot numbers. Own chunks went to the receivers,
  // chunks of the senders arrived; `back`: the reverse.
  __device__ __forceinline__ void advance(const InternodeWorld& world, bool back) const {
    u64* outward = back ? world.taken : world.sent;
    u64* inward = back ? world.sent : world.taken;
    for (u32 i = threadIdx.x; i < counts[0]; i += blockDim.x) {
      outward[receivers[i]] += own;
    }
    for (u32 g = threadIdx.x; g < counts[1]; g += blockDim.x) {
      inward[senders[g]] += chunks[g];
    }
  }
};

// Copies the world to shared memory, because it is read often. All threads.
__device__ __forceinline__ void load_world(InternodeWorld& to, const InternodeWorld* from) {
  for (u32 i = threadIdx.x; i < sizeof(InternodeWorld) / 8; i += blockDim.x) {
    ((u64*)&to)[i] = ((const u64*)from)[i];
  }
  __syncthreads();
}

// All lanes of a summing warp: waits for the slots of all other nodes with rows of chunk `c` of this rank.
// `slots`, [nodes], then names the slot of each node; `taken`, [nodes], counts the rows there that
// belong to earlier tokens.
__device__ __forceinline__ bool await_slots_of_chunk(const InternodeWorld& world, const WaitContext& w,
                                                     const ChunkSchedule& schedule, u32 c, bool witness,
                                                     const char** slots, u32* taken) {
  for (u32 i = 0; i < schedule.counts[0]; i++) {
    u32 q = schedule.receivers[i];
    const InternodePartner& partner = world.partner[q];
    u64 number = world.taken[q] + c;
    if (!wait_slot(world, w, q, number, witness)) {
      return false;
    }
    if (is_first_lane()) {
      slots[partner.node] = partner.in + slot_at(world, number);
      taken[partner.node] = 0;
    }
  }
  __syncwarp();
  return true;
}

// All lanes: returns these slots, which have been read.
__device__ __forceinline__ bool return_slots_of_chunk(const InternodeWorld& world, const WaitContext& w,
                                                      const ChunkSchedule& schedule, u32 c) {
  for (u32 i = 0; i < schedule.counts[0]; i++) {
    u32 q = schedule.receivers[i];
    const InternodePartner& partner = world.partner[q];
    if (!check_submitted(w, (u32)partner.rank, return_slot(world, w, partner, world.taken[q] + c))) {
      return false;
    }
  }
  return true;
}
