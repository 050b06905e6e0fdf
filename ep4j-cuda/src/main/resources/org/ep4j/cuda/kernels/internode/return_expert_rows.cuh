// The returning warps of an internode combine in the order of experts: they read the rows of the
// choices of a sender's tokens where the ranks of this node keep them, and send them unreduced.
#pragma once
#include "combine/row_places.cuh"
#include "internode/internode_return.cuh"

// The records of a slot: for each token of the chunk, in token order, the row of each choice that lies in the node,
// in the order of choices; the weight of the row follows it. Source and rail know the same choices: the
// rail has kept the entries that the source sent. Each record is aligned to SLOT_LINE.
struct ExpertReturnRecord {
  u32 weight;
  u32 bytes;

  __device__ __forceinline__ explicit ExpertReturnRecord(const CombineParameters& p)
      : weight((u32)p.return_row_bytes), bytes(whole_lines(weight + (ReturnRecordLayout::carries_weights(p) ? 4 : 0))) {}
};

// Of the notifying warp: rows that were read are those of this operation, unless their holder has given it
// up meanwhile. A source in another node cannot see that.
struct HeldRows {
  const CombineParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;

  __device__ __forceinline__ bool operator()() const {
    bool held = true;
    for (u32 r = (u32)world.first + lane_id(); r < world.end; r += 32) {
      if (p.peers[r] != nullptr && load_relaxed_system(places_of(p, (u32)p.rank, r)) == WITHDRAWN) {
        fail_wait(w, PHASE_ROWS, r, w.epoch, 0);
        held = false;
      }
    }
    return __all_sync(0xffffffff, held);
  }
};

template <class T>
struct ExpertRowReturner {
  const CombineParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;
  const ReadableRows& readable;
  const ChunkSchedule& schedule;
  ExpertReturnRecord shape;
  StoreStages store_stages;

  __device__ __forceinline__ ExpertRowReturner(const CombineParameters& p, const InternodeWorld& world, const WaitContext& w,
                                               const ReadableRows& readable, const ChunkSchedule& schedule, char* pieces)
      : p(p), world(world), w(w), readable(readable), schedule(schedule), shape(p), store_stages(pieces) {}

  // Chunk `c` of sender `g`. The notifying warp sends the slot of the notice.
  __device__ __forceinline__ bool send(SlotNotice& notice, u32 g, u32 c) {
    u32 q = schedule.senders[g];
    const InternodePartner& partner = world.partner[q];
    u64 number = world.sent[q] + c;
    u64 tokens = matrix_row(p, ROW_TOKENS)[partner.rank];
    if (!wait_credit(world, w, q, number)) {
      return false;
    }
    char* slot = partner.out + slot_at(world, number);
    char* to = slot;
    u64 first = (u64)c * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, tokens);
    for (u64 token = first; token < end; token++) {
      to = write_records(to, p.internode_entries + ((u64)q * p.internode_tokens + token) * p.top_k);
    }
    store_stages.drain();
    post_notice(notice, NOTICE_FULL, number, q, (u32)(to - slot));
    return true;
  }

 private:
  // The rows of a token, whose entries begin at `entries`.
  __device__ __forceinline__ char* write_records(char* to, const u64* entries) {
    for (u32 first = 0; first < p.top_k; first += 32) {
      u32 k = first + lane_id();
      u64 entry = k < p.top_k ? entries[k] : NO_ROUTE;
      bool here = entry != NO_ROUTE && is_intranode(world, (u32)(entry >> 32));
      for (u32 left = __ballot_sync(0xffffffff, here); left != 0; left &= left - 1) {
        u64 row = __shfl_sync(0xffffffff, entry, __ffs(left) - 1);
        write_record(to, (u32)(row >> 32), (u32)row);
        to += shape.bytes;
      }
    }
    return to;
  }

  __device__ __forceinline__ void write_record(char* to, u32 holder, u32 row) {
    store_stages.copy(to, readable.rows[holder] + row * p.hidden * (16 / T::ELEMENTS), (u32)p.return_row_bytes);
    if (ReturnRecordLayout::carries_weights(p) && is_first_lane()) {
      *(float*)(to + shape.weight) = __ldcg(readable.weights[holder] + row);
    }
  }
};
