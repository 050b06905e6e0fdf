// The warps of an internode dispatch that fill slots with records of tokens, and the warps that
// take slots and store their rows to the ranks of this node. A record holds a token's routes into
// the node and its metadata, whose format depends on the layout.
#pragma once
#include "internode/slot_notices.cuh"
#include "internode/internode_pipeline.cuh"
#include "internode/internode_schedule.cuh"
#include "dispatch/layout.cuh"

// In front of the records of a slot: a bit mask of the chunk's tokens that go to the node, and
// above it the first token of the chunk.
constexpr u32 SLOT_HEADER = 128;

__device__ __forceinline__ u64 slot_header(u32 first, u32 mask) { return (u64)first << 32 | mask; }

// A record begins with its token, u32; at this offset its routes, u64 [top_k], each into the node
// or NO_ROUTE.
constexpr u32 RECORD_ROUTES = 16;

// Whether a route leads into a node.
__device__ __forceinline__ bool targets_node(const InternodeWorld& world, u64 route, u64 node) {
  return route != NO_ROUTE && world.node_of[route_rank(route)] == node;
}

// The chunks that a block of `blocks` fills: `count` chunks from `first` on; the i-th has number i
// * blocks + block. So slots are filled in about number order while all blocks work.
struct BlockChunks {
  u32 blocks;
  u32 first;
  u32 count;

  // A block from number `blocks` on has no chunks.
  __device__ __forceinline__ BlockChunks(u32 chunks, u32 blocks) : blocks(blocks) {
    u32 each = chunks / blocks;
    u32 more = chunks - each * blocks;
    bool fills = blockIdx.x < blocks;
    count = fills ? each + (blockIdx.x < more ? 1 : 0) : 0;
    first = fills ? blockIdx.x * each + min(blockIdx.x, more) : 0;
  }

  __device__ __forceinline__ TokenRange tokens(const DispatchParameters& p) const {
    u64 begin = (u64)first * p.chunk_tokens;
    u64 end = begin + (u64)count * p.chunk_tokens;
    return TokenRange{(u32)min(begin, p.tokens), (u32)min(end, p.tokens)};
  }
};

// A warp that works on slots. A Record has
//   row, bytes                  offset of the row in a record, and the record's end; the next record begins
//                               at the next multiple of SLOT_LINE
//   write(p, world, node, token, to)    writes all but the row; all lanes
//   keep(p, place, record)      stores what the handle keeps of a token beside its routes, whose first has
//                               number `place`; all lanes, unless the dispatch is cached
//   keep_none(p, place)         the same for a token that does not go to this node; one thread
//   scatter(p, pipeline, source, record, routes, destinations)
//                               sends the row's metadata along this lane's routes, and returns the
//                               destinations of the row, null where it does not go
//   WITNESSES_SLOTS             whether the first forwarding warp of block 0 witnesses waits for slots
//   end(p, w, pipeline, routes, first, mask)
//                               after all rows of a chunk have been stored; `routes` are those of its
//                               first token, then of the next
template <class Record>
struct SlotWorker {
  const DispatchParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;
  Record record;
  StagePipeline pipeline;

  __device__ __forceinline__ SlotWorker(const DispatchParameters& p, const InternodeWorld& world,
                                      const WaitContext& w, const StagePipeline& pipeline)
      : p(p), world(world), w(w), record(p), pipeline(pipeline) {}

  // Bytes of a record from `at` on that fit into a stage.
  __device__ __forceinline__ u32 piece(u32 at) const {
    return min(pipeline.stage_bytes, record.bytes - at);
  }

  // Fills slot `number` of partner `q` with the chunk of tokens from `first` on. The notifying warp
  // sends it.
  __device__ __forceinline__ bool fill(SlotNotice& notice, u32 q, u64 number, u32 first, u32 end) {
    const InternodePartner& partner = world.partner[q];
    u32 mine = first + lane_id();
    bool goes = false;
    for (u32 k = 0; mine < end && k < p.top_k; k++) {
      goes = goes || targets_node(world, p.routes[(u64)mine * p.top_k + k], partner.node);
    }
    u32 mask = __ballot_sync(0xffffffff, goes);
    if (!wait_credit(world, w, q, number)) {
      return false;
    }
    char* slot = partner.out + slot_at(world, number);
    u32 ahead = mask;
    u32 ahead_at = 0;
    auto load = [&]() {
      if (ahead == 0) {
        return;
      }
      u32 token = first + __ffs(ahead) - 1;
      const char* row = p.x + token * p.row_bytes;
      u32 bytes = piece(ahead_at);
      if (ahead_at == 0) {
        record.write(p, world, partner.node, token, pipeline.next());
        pipeline.fence_written();
        pipeline.load(record.row, row, bytes - record.row);
      } else {
        pipeline.load(0, row + ahead_at - record.row, bytes);
      }
      ahead_at += bytes;
      if (ahead_at == record.bytes) {
        ahead_at = 0;
        ahead &= ahead - 1;
      }
    };
    for (u32 i = 0; i < StagePipeline::AHEAD; i++) {
      load();
    }
    char* to = slot + SLOT_HEADER;
    for (u32 left = __popc(mask); left > 0; left--) {
      for (u32 at = 0; at < record.bytes; at += pipeline.stage_bytes) {
        const char* stage = pipeline.arrived();
        pipeline.store(is_first_lane() ? to + at : nullptr, stage, piece(at));
        pipeline.release();
        load();
      }
      to += whole_lines(record.bytes);
    }
    if (is_first_lane()) {
      store_relaxed_system((u64*)slot, slot_header(first, mask));
    }
    pipeline.drain();
    post_notice(notice, NOTICE_FULL, number, q, (u32)(to - slot));
    return true;
  }

  // Forwards slot `number` of sender `q` to the ranks of this node.
  __device__ __forceinline__ bool forward(u32 q, u64 number) {
    const InternodePartner& partner = world.partner[q];
    bool witness = Record::WITNESSES_SLOTS && blockIdx.x == 0 && warp_id() == p.push_warps + p.fill_warps;
    if (!wait_slot(world, w, q, number, witness)) {
      return false;
    }
    const char* slot = partner.in + slot_at(world, number);
    u64 header = load_relaxed_system((const u64*)slot);
    u32 first = (u32)(header >> 32);
    u32 mask = (u32)header;
    if (!p.cached) {
      clear_routes(q, first, mask);
    }
    u32 loads = __popc(mask);
    const char* from = slot + SLOT_HEADER;
    u32 ahead_at = 0;
    auto load = [&]() {
      if (loads == 0) {
        return;
      }
      u32 bytes = piece(ahead_at);
      pipeline.load(0, from + ahead_at, bytes);
      ahead_at += bytes;
      if (ahead_at == record.bytes) {
        ahead_at = 0;
        from += whole_lines(record.bytes);
        loads--;
      }
    };
    for (u32 i = 0; i < StagePipeline::AHEAD; i++) {
      load();
    }
    for (u32 left = __popc(mask); left > 0; left--) {
      char* destinations[2];
      for (u32 at = 0; at < record.bytes; at += pipeline.stage_bytes) {
        const char* stage = pipeline.arrived();
        u32 skipped = 0;
        if (at == 0) {
          skipped = record.row;
          take(q, stage, destinations);
        }
#pragma unroll
        for (u32 round = 0; round < 2; round++) {
          char* destination = destinations[round];
          pipeline.store(destination == nullptr ? nullptr : destination + (at + skipped - record.row),
                     stage + skipped, piece(at) - skipped);
        }
        pipeline.release();
        load();
      }
    }
    record.end(p, w, pipeline, routes_of(q, first), first, mask);
    return check_submitted(w, (u32)partner.rank, return_slot(world, w, partner, number));
  }

 private:
  __device__ __forceinline__ u64 place_of(u32 q, u32 token) const {
    return ((u64)q * p.internode_tokens + token) * p.top_k;
  }

  __device__ __forceinline__ u64* routes_of(u32 q, u32 token) const {
    return p.internode_routes + place_of(q, token);
  }

  // Clears the routes of the chunk's tokens that do not go to this node.
  __device__ __forceinline__ void clear_routes(u32 q, u32 first, u32 mask) const {
    bool comes = (mask >> lane_id() & 1) != 0;
    if (lane_id() < p.chunk_tokens && !comes && first + lane_id() < p.internode_tokens) {
      for (u32 k = 0; k < p.top_k; k++) {
        routes_of(q, first + lane_id())[k] = NO_ROUTE;
      }
      Record::keep_none(p, place_of(q, first + lane_id()));
    }
  }

  // Saves the routes of a record, sends the row's metadata, and returns this lane's destinations of
  // the row.
  __device__ __forceinline__ void take(u32 q, const char* from, char** destinations) const {
    u32 token = *(const u32*)from;
    u64 routes[2];
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 k = round * 32 + lane_id();
      routes[round] = k < p.top_k ? ((const u64*)(from + RECORD_ROUTES))[k] : NO_ROUTE;
      if (!p.cached && k < p.top_k) {
        routes_of(q, token)[k] = routes[round];
      }
    }
    if (!p.cached) {
      record.keep(p, place_of(q, token), from);
    }
    record.scatter(p, pipeline, (u32)world.partner[q].rank, from, routes, destinations);
  }
};

template <class Record>
__device__ __forceinline__ void fill_slots(SlotWorker<Record>& slots, const ChunkSchedule& schedule,
                                           BlockChunks block_chunks, SlotNotice* notices, u32 warp) {
  const DispatchParameters& p = slots.p;
  u32 receivers = schedule.counts[0];
  for (u32 job = warp; job < block_chunks.count * receivers; job += (u32)p.fill_warps) {
    u32 i = job / receivers;
    u32 q = schedule.receivers[job - i * receivers];
    u64 number = slots.world.sent[q] + i * block_chunks.blocks + blockIdx.x;
    u64 first = (u64)(block_chunks.first + i) * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, p.tokens);
    if (!slots.fill(notices[warp], q, number, (u32)first, (u32)end)) {
      break;
    }
  }
  post_notice(notices[warp], NOTICE_END);
}

// Warp `warp` of the forwarding warps of one of `blocks` blocks.
template <class Record>
__device__ __forceinline__ void forward_slots(SlotWorker<Record>& slots, const ChunkSchedule& schedule,
                                              u32 blocks, u32 warp) {
  u32 senders = schedule.counts[1];
  u32 stride = blocks * (u32)slots.p.forward_warps;
  u32 jobs = schedule.max_chunks() * senders;
  for (u32 job = warp * blocks + blockIdx.x; job < jobs; job += stride) {
    u32 c = job / senders;
    u32 g = job - c * senders;
    u32 q = schedule.senders[g];
    if (c < schedule.chunks[g] && !slots.forward(q, slots.world.taken[q] + c)) {
      break;
    }
  }
  // Also after a failed wait: stores in flight must not outlive the stages.
  slots.pipeline.drain();
}
