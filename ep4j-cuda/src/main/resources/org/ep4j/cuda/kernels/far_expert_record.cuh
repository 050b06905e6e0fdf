// What a slot of an EXPERT_MAJOR dispatch holds for a token.
#pragma once
#include "companion.cuh"
#include "expert_push.cuh"
#include "far_slots.cuh"

// Offsets: u32 token at 0, ways, then the rows that they lead to, u32 [top_k]; the companion; the row.
// The same on both sides, and in org.ep4j.cuda.engine.FarChunks.
struct ExpertRecord {
  u32 targets;
  u32 companion;
  u32 row;
  u32 bytes;

  __device__ __forceinline__ explicit ExpertRecord(const DispatchParameters& p)
      : targets(RECORD_WAYS + (u32)p.top_k * 8),
        companion((targets + (u32)p.top_k * 4 + 15) / 16 * 16),
        row(whole_lines(companion + (u32)p.companion_bytes)),
        bytes(row + (u32)p.row_bytes) {}

  __device__ __forceinline__ void write(const DispatchParameters& p, const FarWorld& far, u64 node,
                                        u32 token, char* to) const {
    if (lane_id() == 0) {
      *(u32*)to = token;
    }
    for (u32 k = lane_id(); k < p.top_k; k += 32) {
      u64 at = (u64)token * p.top_k + k;
      u64 way = p.ways[at];
      bool leads = leads_into(far, way, node);
      ((u64*)(to + RECORD_WAYS))[k] = leads ? way : NOWHERE;
      ((u32*)(to + targets))[k] = leads ? p.targets[at] : NO_ROW;
    }
    CompanionParts parts;
    parts.load_token(p, token);
    parts.write(p, CompanionShape(p), token, to + companion);
  }

  __device__ __forceinline__ void spread(const DispatchParameters& p, const Pipe& pipe, u32,
                                         const char* record, const u64* ways,
                                         char** places) const {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 k = round * 32 + lane_id();
      u64 way = ways[round];
      u32 target = k < p.top_k ? ((const u32*)(record + targets))[k] : NO_ROW;
      char* region = way == NOWHERE ? nullptr : p.peers[way_rank(way)];
      places[round] = region == nullptr || target == NO_ROW
                          ? nullptr
                          : region + p.rows_offset + target * p.row_bytes;
      pipe.store(region == nullptr
                     ? nullptr
                     : region + p.companions_offset + way_slot(way) * p.companion_bytes,
                 record + companion, (u32)p.companion_bytes);
    }
  }

  // Raises the words of the chunk's tokens: one fence for all.
  __device__ __forceinline__ void end(const DispatchParameters& p, const Watch& w, const Pipe& pipe,
                                      const u64* ways, u32 first, u32 mask) const {
    pipe.drain();
    __threadfence_system();
    if ((mask >> lane_id() & 1) != 0) {
      raise_words(p, w, AllRanks{}, ways + (u64)lane_id() * p.top_k, first + lane_id());
    }
  }
};
