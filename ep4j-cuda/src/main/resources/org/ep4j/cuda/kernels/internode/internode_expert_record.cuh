// The record of a token in a slot of an EXPERT_MAJOR dispatch.
#pragma once
#include "dispatch/row_metadata.cuh"
#include "dispatch/expert_push.cuh"
#include "internode/internode_slots.cuh"

// Offsets: u32 token at 0, routes, then their target rows, u32 [top_k]; the metadata; the row.
// Equal on both sides, and in org.ep4j.cuda.internode.InternodeChunks.
struct ExpertRecord {
  // Waits for the arrival words of the same rows are witnessed.
  static constexpr bool WITNESSES_SLOTS = false;
  u32 targets;
  u32 metadata;
  u32 row;
  u32 bytes;

  __device__ __forceinline__ explicit ExpertRecord(const DispatchParameters& p)
      : targets(RECORD_ROUTES + (u32)p.top_k * 8),
        metadata((targets + (u32)p.top_k * 4 + 15) / 16 * 16),
        row(whole_lines(metadata + (u32)p.metadata_bytes)),
        bytes(row + (u32)p.row_bytes) {}

  __device__ __forceinline__ void write(const DispatchParameters& p, const InternodeWorld& world, u64 node,
                                        u32 token, char* to) const {
    if (is_first_lane()) {
      *(u32*)to = token;
    }
    for (u32 k = lane_id(); k < p.top_k; k += 32) {
      u64 at = (u64)token * p.top_k + k;
      u64 route = p.routes[at];
      bool valid = targets_node(world, route, node);
      ((u64*)(to + RECORD_ROUTES))[k] = valid ? route : NO_ROUTE;
      ((u32*)(to + targets))[k] = valid ? p.targets[at] : NO_ROW;
    }
    RowMetadata parts;
    parts.load_token(p, token);
    parts.write(p, RowMetadataLayout(p), token, to + metadata);
  }

  // The handle keeps where the rows of the token's choices lie: `place` is that of its first choice.
  __device__ __forceinline__ void keep(const DispatchParameters& p, u64 place, const char* record) const {
    if (p.internode_entries != nullptr) {
      const u64* entries = (const u64*)(record + metadata + RowMetadataLayout(p).entries);
      for (u32 k = lane_id(); k < p.top_k; k += 32) {
        p.internode_entries[place + k] = entries[k];
      }
    }
  }

  // A token without rows in this node.
  static __device__ __forceinline__ void keep_none(const DispatchParameters& p, u64 place) {
    for (u32 k = 0; p.internode_entries != nullptr && k < p.top_k; k++) {
      p.internode_entries[place + k] = NO_ROUTE;
    }
  }

  __device__ __forceinline__ void scatter(const DispatchParameters& p, const StagePipeline& pipeline, u32,
                                         const char* record, const u64* routes,
                                         char** destinations) const {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 k = round * 32 + lane_id();
      u64 route = routes[round];
      u32 target = k < p.top_k ? ((const u32*)(record + targets))[k] : NO_ROW;
      char* region = route == NO_ROUTE ? nullptr : p.peers[route_rank(route)];
      destinations[round] = region == nullptr || target == NO_ROW
                          ? nullptr
                          : region + p.rows_offset + target * p.row_bytes;
      pipeline.store(region == nullptr
                     ? nullptr
                     : region + p.metadata_offset + route_slot(route) * p.metadata_bytes,
                 record + metadata, (u32)p.metadata_bytes);
    }
  }

  // Raises the arrival words of the chunk's tokens: one fence for all.
  __device__ __forceinline__ void end(const DispatchParameters& p, const WaitContext& w, const StagePipeline& pipeline,
                                      const u64* routes, u32 first, u32 mask) const {
    pipeline.drain();
    __threadfence_system();
    if ((mask >> lane_id() & 1) != 0) {
      raise_words(p, w, AllRanks{}, routes + (u64)lane_id() * p.top_k, first + lane_id());
    }
  }
};
