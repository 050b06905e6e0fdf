// The record of a token in a slot of a FLAT dispatch.
#pragma once
#include "internode/internode_slots.cuh"

constexpr u32 RECORD_WEIGHTED = 1;
constexpr u32 RECORD_FACTORED = 2;
constexpr u32 NO_ID = ~0u;

// Offsets: u32 token at 0, u32 flags at 4, float factor at 8, routes; then, unless cached, ids u32
// [top_k] and weights float [top_k]; scales; the row. Equal on both sides, and in
// org.ep4j.cuda.internode.InternodeChunks.
struct FlatRecord {
  static constexpr bool WITNESSES_SLOTS = true;
  u32 ids;
  u32 weights;
  u32 scales;
  u32 row;
  u32 bytes;

  __device__ __forceinline__ explicit FlatRecord(const DispatchParameters& p)
      : ids(RECORD_ROUTES + (u32)p.top_k * 8) {
    u32 choices = p.cached ? 0 : (u32)p.top_k * 4;
    weights = ids + choices;
    scales = (weights + choices + 15) / 16 * 16;
    row = whole_lines(scales + (u32)p.scale_bytes);
    bytes = row + (u32)p.row_bytes;
  }

  __device__ __forceinline__ void write(const DispatchParameters& p, const InternodeWorld& world, u64 node,
                                        u32 token, char* to) const {
    if (is_first_lane()) {
      ((u32*)to)[0] = token;
      ((u32*)to)[1] = (p.weights != nullptr ? RECORD_WEIGHTED : 0) |
                      (p.factors != nullptr ? RECORD_FACTORED : 0);
      ((float*)to)[2] = p.factors != nullptr ? p.factors[token] : 0;
    }
    for (u32 k = lane_id(); k < p.top_k; k += 32) {
      u64 at = (u64)token * p.top_k + k;
      u64 route = p.routes[at];
      ((u64*)(to + RECORD_ROUTES))[k] = targets_node(world, route, node) ? route : NO_ROUTE;
      if (!p.cached) {
        i64 id = expert_of(p, at);
        ((u32*)(to + ids))[k] = (u64)id < p.experts ? (u32)id : NO_ID;
        ((float*)(to + weights))[k] = p.weights != nullptr ? p.weights[at] : 0;
      }
    }
    if (p.scales != nullptr) {
      copy_bytes(to + scales, p.scales + token * p.scale_bytes, p.scale_bytes, lane_id(), 32);
    }
  }

  // Its combine needs the routes alone.
  __device__ __forceinline__ void keep(const DispatchParameters&, u64, const char*) const {}
  static __device__ __forceinline__ void keep_none(const DispatchParameters&, u64) {}

  __device__ __forceinline__ void scatter(const DispatchParameters& p, const StagePipeline&, u32 source,
                                         const char* record, const u64* routes,
                                         char** destinations) const {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u64 route = routes[round];
      bool valid = route != NO_ROUTE;
      destinations[round] = valid ? p.peers[route_rank(route)] + p.rows_offset + route_slot(route) * p.row_bytes
                            : nullptr;
      for (u32 left = __ballot_sync(0xffffffff, valid); left != 0; left &= left - 1) {
        u64 to = __shfl_sync(0xffffffff, route, __ffs(left) - 1);
        write_row_metadata(p, record, source, route_rank(to), route_slot(to));
      }
    }
  }

  __device__ __forceinline__ void end(const DispatchParameters&, const WaitContext&, const StagePipeline&,
                                      const u64*, u32, u32) const {}

 private:
  // Writes the metadata of a row to slot `slot` of rank `to`; all lanes.
  __device__ __forceinline__ void write_row_metadata(const DispatchParameters& p, const char* record,
                                                u32 source, u32 to, u32 slot) const {
    char* region = p.peers[to];
    u32 flags = ((const u32*)record)[1];
    if (is_first_lane()) {
      ((int*)(region + p.tokens_offset))[slot] = ((const int*)record)[0];
      ((int*)(region + p.sources_offset))[slot] = (int)source;
      if ((flags & RECORD_FACTORED) != 0) {
        ((float*)(region + p.factors_offset))[slot] = ((const float*)record)[2];
      }
    }
    for (u32 k = lane_id(); !p.cached && k < p.top_k; k += 32) {
      u64 at = (u64)slot * p.top_k + k;
      u32 id = ((const u32*)(record + ids))[k];
      u32 owner = id == NO_ID ? 0xffffffff : p.placement[id];
      bool local = owner >> 16 == to;
      ((i64*)(region + p.ids_offset))[at] = local ? (i64)(owner & 0xffff) : -1;
      if ((flags & RECORD_WEIGHTED) != 0) {
        ((float*)(region + p.weights_offset))[at] =
            local ? ((const float*)(record + weights))[k] : 0.0f;
      }
    }
    if (p.scale_bytes > 0) {
      copy_bytes(region + p.scales_offset + slot * p.scale_bytes, record + scales,
                 p.scale_bytes, lane_id(), 32);
    }
  }
};
