// The summing warps of an internode combine: they sum the tokens of this rank, a chunk at a time,
// once the slots of all other nodes for it have arrived. Rows are added in ascending rank order. If
// nodes round their sums, this rank also rounds the sum of its own node, and so adds one row a
// node.
#pragma once
#include "internode/internode_return_layout.cuh"
#include "internode/internode_load_stage.cuh"
#include "combine/sums.cuh"

// Rows of a token in ascending rank order; the rows of this node's ranks are in the middle.
struct FoundRows {
  int before;
  int intranode;
  int after;
};

template <class T, class H>
struct ChunkReducer {
  const CombineParameters& p;
  const InternodeWorld& world;
  const WaitContext& w;
  const InternodeReturnLayout& return_layout;
  const ChunkSchedule& schedule;
  ReturnRecordLayout shape;
  LoadStage load_stage;
  // Shared memory of the warp.
  const char** rows;  // [64]
  const char** slots;   // [nodes] the slot from each node
  u32* taken;           // [nodes] rows of the slot that belong to earlier tokens

  __device__ __forceinline__ ChunkReducer(const CombineParameters& p, const InternodeWorld& world, const WaitContext& w,
                                    const InternodeReturnLayout& return_layout, const ChunkSchedule& schedule, LoadStage load_stage,
                                    const char** rows, const char** slots, u32* taken)
      : p(p),
        world(world),
        w(w),
        return_layout(return_layout),
        schedule(schedule),
        shape(p),
        load_stage(load_stage),
        rows(rows),
        slots(slots),
        taken(taken) {}

  __device__ __forceinline__ bool sum(u32 c) {
    if (!await_slots_of_chunk(world, w, schedule, c, is_witness(), slots, taken)) {
      return false;
    }
    u64 first = (u64)c * p.chunk_tokens;
    u64 end = min(first + p.chunk_tokens, p.tokens);
    if (!return_layout.await(p, world, w, 0, p.routes, first, end, is_witness())) {
      return false;
    }
    for (u64 token = first; token < end; token++) {
      FoundRows found;
      find((u32)token, found);
      sum_token((u32)token, found);
      if (ReturnRecordLayout::carries_weights(p)) {
        sum_weights((u32)token, found);
      }
      __syncwarp();
    }
    return return_slots_of_chunk(world, w, schedule, c);
  }

 private:
  // Whether a node's sum for a token travels as one row.
  __device__ __forceinline__ bool rounded() const {
    return H::ELEMENTS == T::ELEMENTS && p.rounded != 0;
  }

  // Block 0, the first summing warp.
  __device__ __forceinline__ bool is_witness() const {
    return blockIdx.x == 0 && warp_id() == p.push_warps + p.return_warps + 1;
  }

  __device__ __forceinline__ void find(u32 token, FoundRows& rows_found) const {
    constexpr u32 NO_ROUTE_NODE = 0xffff0000;
    u32 found = 0;
    u32 last = NO_NODE;  // node of the last route in the previous lanes
    rows_found = {0, 0, 0};
    for (u32 first = 0; first < p.top_k; first += 32) {
      u32 k = first + lane_id();
      u64 route = k < p.top_k ? p.routes[(u64)token * p.top_k + k] : NO_ROUTE;
      bool valid = route != NO_ROUTE;
      bool intranode = valid && is_intranode(world, (u32)(route >> 32));
      u32 node = valid ? world.node_of[route >> 32] : NO_ROUTE_NODE + lane_id();
      u32 same = __match_any_sync(0xffffffff, node);
      u32 below = (1u << lane_id()) - 1;
      u32 earlier = __popc(same & below);
      bool counts = intranode || (valid && !(rounded() && (earlier > 0 || node == last)));
      u32 mask = __ballot_sync(0xffffffff, counts);
      const char* row = nullptr;
      if (intranode) {
        row = return_layout.find(p, world, 0, route, 16 / T::ELEMENTS);
      } else if (counts) {
        row = slots[node] + (u64)(taken[node] + (rounded() ? 0 : earlier)) * shape.bytes;
      }
      if (counts) {
        rows[found + __popc(mask & below)] = row;
      }
      bool leader = counts && !intranode && earlier == 0;
      __syncwarp();
      if (leader) {
        taken[node] += rounded() ? 1 : __popc(same);
      }
      u32 intranode_mask = __ballot_sync(0xffffffff, intranode);
      u32 before = __ballot_sync(0xffffffff, counts && !intranode && node < world.node);
      rows_found.intranode += __popc(intranode_mask);
      rows_found.before += __popc(before);
      found += __popc(mask);
      u32 leading = __ballot_sync(0xffffffff, valid);
      last = leading == 0 ? NO_NODE : __shfl_sync(0xffffffff, node, highest(leading));
    }
    rows_found.after = (int)found - rows_found.before - rows_found.intranode;
    __syncwarp();
  }

  static __device__ __forceinline__ u32 highest(u32 mask) {
    u32 last = 0;
    for (; mask != 0; mask &= mask - 1) {
      last = __ffs(mask) - 1;
    }
    return last;
  }

  // Piece by piece: rows of other nodes pass through the load stage.
  __device__ __forceinline__ void sum_token(u32 token, FoundRows found) {
    constexpr u32 SIZE = 16 / H::ELEMENTS;  // bytes of a column
    u32 internode_rows = (u32)(found.before + found.after);
    u32 columns = (u32)p.columns;
    u32 piece = internode_rows == 0 ? columns : load_stage.piece(internode_rows, SIZE * T::ELEMENTS) / SIZE;
    for (u32 begin = 0; begin < columns; begin += piece) {
      u32 end = min(begin + piece, columns);
      StagedRows staged{nullptr, 0};
      if (internode_rows > 0) {
        staged = load_stage.take(rows, internode_rows, (u32)found.before, (u32)found.intranode, begin * SIZE,
                            (end - begin) * SIZE);
      }
      sum_columns(token, found, staged, begin, end);
    }
  }

  __device__ __forceinline__ void sum_columns(u32 token, FoundRows found, StagedRows staged,
                                              u32 begin, u32 end) const {
    constexpr u32 E = T::ELEMENTS;
    // Vectors of a lane at a time.
    constexpr u32 U = SAVES_REGISTERS ? 1 : H::ELEMENTS == E ? 3 : 2;
    constexpr u32 ROWS = H::ELEMENTS == E || CALLS_LIBRARY ? 1 : 2;  // rows at a time, bounded by registers
    MemoryRows intranode{rows + found.before};
    StagedRows after{staged.first + found.before * staged.bytes, staged.bytes};
    u64 place = ((u64)token * p.hidden + p.column) * (16 / E);
    for (u32 first = begin + lane_id() * E; first < end; first += 32 * E * U) {
      uint4 own[U];
      bool rounds = rounded() && found.intranode > 1;
      if (rounds) {
#pragma unroll
        for (u32 u = 0; u < U; u++) {
          float part[1][E] = {};
          add_rows<T, H, 1, 2>(part, intranode, found.intranode, first + u * 32 * E, end);
          own[u] = round_vector<T>(part[0]);
        }
      }
      float sum[U][E] = {};
      add_biases<T, U>(p, sum, place, first, end);
      add_rows<T, H, U, 1>(sum, staged, found.before, first - begin, end - begin);
      if (rounds) {
#pragma unroll
        for (u32 u = 0; u < U; u++) {
          add_vector<T>(sum[u], own[u]);
        }
      } else {
        add_rows<T, H, U, ROWS>(sum, intranode, found.intranode, first, end);
      }
      add_rows<T, H, U, 1>(sum, after, found.after, first - begin, end - begin);
      store_results<T, U>(p, sum, place, first, end);
    }
  }

  // The weights of found row i.
  __device__ __forceinline__ const float* weights_of(FoundRows found, int i) const {
    bool intranode = i >= found.before && i < found.before + found.intranode;
    return intranode ? row_weights(p, rows[i], 16 / T::ELEMENTS)
                : (const float*)(rows[i] + shape.weights);
  }

  __device__ __forceinline__ void sum_weights(u32 token, FoundRows found) const {
    int all = found.before + found.intranode + found.after;
    for (u32 k = lane_id(); k < p.top_k; k += 32) {
      float sum = 0;
      float own = 0;
      for (int i = 0; i < all; i++) {
        float weight = __ldcg(weights_of(found, i) + k);
        bool intranode = i >= found.before && i < found.before + found.intranode;
        if (!intranode || !rounded()) {
          sum += weight;
        } else {
          own += weight;
          sum += i + 1 == found.before + found.intranode ? own : 0;
        }
      }
      p.out_weights[(u64)token * p.top_k + k] = sum;
    }
  }
};
