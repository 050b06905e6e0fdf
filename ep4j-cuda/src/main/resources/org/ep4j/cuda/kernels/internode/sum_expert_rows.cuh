// The summing warps of an internode combine in the order of experts: they sum the tokens of this
// rank, a chunk at a time, once the slots of all other nodes for it have arrived. Each row of a token
// is added by fused multiply-adds in ascending order of experts, wherever it comes from: a slot, or
// the memory of a rank of this node. So the sum depends on nothing but the token's own rows, experts and
// weights.
#pragma once
#include "internode/internode_load_stage.cuh"
#include "internode/return_expert_rows.cuh"
#include "combine/sums.cuh"

// The choices of a token: those with the numbers i and i + 32 in lane i.
struct TokenChoices {
  u64 entries[ROUNDS];
  i64 ids[ROUNDS];
  float weights[ROUNDS];

  __device__ __forceinline__ TokenChoices(const CombineParameters& p, u32 token) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      bool some = k < p.top_k;
      u64 at = (u64)token * p.top_k + k;
      entries[round] = some ? p.entries[at] : NO_ROUTE;
      ids[round] = entries[round] != NO_ROUTE ? p.kept_ids[at] : 0;
      weights[round] = entries[round] != NO_ROUTE && p.kept_weights != nullptr ? p.kept_weights[at] : 1;
    }
  }
};

template <class T>
struct ExpertChunkReducer {
  static constexpr u32 SIZE = 16 / T::ELEMENTS;  // bytes of a column

  const CombineParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;
  const ReadableRows& readable;
  const ChunkSchedule& schedule;
  ExpertReturnRecord shape;
  LoadStage load_stage;
  // Shared memory of the warp.
  const char** rows;   // [64]
  float* weights;      // [64], of these rows
  const char** slots;  // [nodes] the slot from each node
  u32* taken;          // [nodes] rows of the slot that belong to earlier tokens

  __device__ __forceinline__ ExpertChunkReducer(const CombineParameters& p, const InternodeWorld& world, const WaitContext& w,
                                                const ReadableRows& readable, const ChunkSchedule& schedule,
                                                LoadStage load_stage, const char** rows, const char** slots, u32* taken)
      : p(p),
        world(world),
        w(w),
        readable(readable),
        schedule(schedule),
        shape(p),
        load_stage(load_stage),
        rows(rows),
        weights((float*)(rows + MAX_ROWS)),
        slots(slots),
        taken(taken) {}

  // Bytes of the rows and weights of a warp.
  static constexpr u32 LIST_BYTES = MAX_ROWS * (sizeof(char*) + sizeof(float));

  // `witness`: of the waits for slots.
  __device__ __forceinline__ bool sum(u32 c, bool witness) {
    if (!await_slots_of_chunk(world, w, schedule, c, witness, slots, taken)) {
      return false;
    }
    u64 first = (u64)c * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, p.tokens);
    for (u64 token = first; token < end; token++) {
      sum_token((u32)token, list((u32)token));
      __syncwarp();
    }
    return return_slots_of_chunk(world, w, schedule, c);
  }

 private:
  // Lists the rows of a token and their weights in the order of their addition; returns their number. Also
  // stores the weights that the holders gave the rows.
  __device__ __forceinline__ u32 list(u32 token) const {
    TokenChoices choices(p, token);
    u32 nodes[ROUNDS];
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      nodes[round] = choices.entries[round] == NO_ROUTE ? NO_NODE : world.node_of[choices.entries[round] >> 32];
    }
    u32 before[ROUNDS] = {};   // rows that are added earlier
    u32 earlier[ROUNDS] = {};  // choices with a lower number whose rows lie in the same node
    u32 of_node[ROUNDS] = {};  // all choices whose rows lie there
    u32 count = 0;
    for (u32 k = 0; k < p.top_k; k++) {
      u32 node = __shfl_sync(0xffffffff, k < 32 ? nodes[0] : nodes[1], k % 32);
      i64 id = __shfl_sync(0xffffffff, k < 32 ? choices.ids[0] : choices.ids[1], k % 32);
      if (node == NO_NODE) {
        continue;
      }
      count++;
#pragma unroll
      for (u32 round = 0; round < ROUNDS; round++) {
        u32 own = round * 32 + lane_id();
        before[round] += id < choices.ids[round] || (id == choices.ids[round] && k < own);
        earlier[round] += node == nodes[round] && k < own;
        of_node[round] += node == nodes[round];
      }
    }
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 entry = choices.entries[round];
      u32 k = round * 32 + lane_id();
      float given = 0;
      if (entry != NO_ROUTE) {
        bool intranode = is_intranode(world, (u32)(entry >> 32));
        const char* row = intranode ? readable.rows[entry >> 32] + (u64)(u32)entry * p.hidden * SIZE
                                    : slots[nodes[round]] + (u64)(taken[nodes[round]] + earlier[round]) * shape.bytes;
        rows[before[round]] = row;
        weights[before[round]] = choices.weights[round];
        if (ReturnRecordLayout::carries_weights(p)) {
          given = __ldcg(intranode ? readable.weights[entry >> 32] + (u32)entry : (const float*)(row + shape.weight));
        }
      }
      if (ReturnRecordLayout::carries_weights(p) && k < p.top_k) {
        p.out_weights[(u64)token * p.top_k + k] = given;
      }
    }
    __syncwarp();
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      if (choices.entries[round] != NO_ROUTE && earlier[round] + 1 == of_node[round]) {
        taken[nodes[round]] += of_node[round];
      }
    }
    __syncwarp();
    return count;
  }

  // Piece by piece: all rows pass through the load stage.
  __device__ __forceinline__ void sum_token(u32 token, u32 count) {
    u32 columns = (u32)p.columns;
    u32 piece = count == 0 ? columns : load_stage.piece(count, 16) / SIZE;
    for (u32 begin = 0; begin < columns; begin += piece) {
      u32 end = min(begin + piece, columns);
      StagedRows staged{nullptr, 0};
      if (count > 0) {
        staged = load_stage.take(rows, count, count, 0, begin * SIZE, (end - begin) * SIZE);
      }
      sum_columns(token, count, FusedRows{staged, weights}, begin, end);
    }
  }

  __device__ __forceinline__ void sum_columns(u32 token, u32 count, const FusedRows& fused, u32 begin, u32 end) const {
    constexpr u32 E = T::ELEMENTS;
    constexpr u32 U = SAVES_REGISTERS ? 1 : 2;  // vectors of a lane at a time
    u64 place = ((u64)token * p.hidden + p.column) * SIZE;
    for (u32 first = begin + lane_id() * E; first < end; first += 32 * E * U) {
      float sum[U][E] = {};
      add_biases<T, U>(p, sum, place, first, end);
      add_rows<T, T, U, 1>(sum, fused, (int)count, first - begin, end - begin);
      store_results<T, U>(p, sum, place, first, end);
    }
  }
};
