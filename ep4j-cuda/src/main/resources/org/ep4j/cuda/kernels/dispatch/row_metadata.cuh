// EXPERT_MAJOR: row metadata, which travels with a row to its slot at a rank in one piece: a
// factor, the scales and, unless the rank has them from an earlier dispatch, the rows of all
// choices (also those of other ranks) and their weights.
#pragma once
#include "dispatch/dispatch_parameters.cuh"

struct RowMetadataLayout {
  u32 scales;   // byte offsets; the factor is at 0
  u32 entries;  // u64 [top_k]
  u32 weights;  // float [top_k]; then the end, a multiple of 16:
                // org.ep4j.cuda.engine.context.RowMetadataSize

  __device__ __forceinline__ explicit RowMetadataLayout(const DispatchParameters& p)
      : scales(16),
        entries(scales + ((u32)p.scale_bytes + 15) / 16 * 16),
        weights(entries + (u32)p.top_k * 8) {}
};

// Row metadata in the registers of a warp: a lane holds the choices i and i + 32 and some words of
// the scales. Scales that are too long or end inside a word stay in memory.
struct RowMetadata {
  static constexpr u32 WORDS = 4;
  u64 entries[2];
  float weights[2];
  float factor;
  u32 scales[WORDS];

  static __device__ __forceinline__ bool holds_scales(const DispatchParameters& p) {
    return p.scale_bytes % 4 == 0 && p.scale_bytes <= WORDS * 128;
  }

  // Loads bypass the first-level cache, which is not coherent with peers' writes.
  __device__ __forceinline__ void load(const DispatchParameters& p, const u64* entries_at,
                                       const float* weights_at, const char* scales_at,
                                       const float* factor_at) {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 k = round * 32 + lane_id();
      bool some = !p.cached && k < p.top_k;
      entries[round] = some ? __ldcg(entries_at + k) : NO_ROUTE;
      weights[round] = some && p.weights != nullptr ? __ldcg(weights_at + k) : 0;
    }
    factor = p.factors != nullptr ? __ldcg(factor_at) : 0;
    u32 words = holds_scales(p) && ((u64)scales_at & 3) == 0 ? (u32)p.scale_bytes / 4 : 0;
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
      u32 at = i * 32 + lane_id();
      scales[i] = at < words ? __ldcg((const u32*)scales_at + at) : 0;
    }
  }

  __device__ __forceinline__ void load_token(const DispatchParameters& p, u32 token) {
    u64 at = (u64)token * p.top_k;
    load(p, p.entries + at, p.weights + at, p.scales + token * p.scale_bytes, p.factors + token);
  }

  __device__ __forceinline__ void load_metadata(const DispatchParameters& p, const RowMetadataLayout& shape,
                                              const char* metadata) {
    load(p, (const u64*)(metadata + shape.entries), (const float*)(metadata + shape.weights),
         metadata + shape.scales, (const float*)metadata);
  }

  // Writes the scales, whose source is `from`, to `to`.
  __device__ __forceinline__ void write_scales(const DispatchParameters& p, const char* from,
                                               char* to) const {
    if (p.scales == nullptr) {
      return;
    }
    if (!holds_scales(p) || (((u64)from | (u64)to) & 3) != 0) {
      for (u32 i = lane_id(); i < p.scale_bytes; i += 32) {
        to[i] = __ldcg(from + i);
      }
      return;
    }
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
      u32 at = i * 32 + lane_id();
      if (at * 4 < p.scale_bytes) {
        ((u32*)to)[at] = scales[i];
      }
    }
  }

  // Writes the metadata of a token.
  __device__ __forceinline__ void write(const DispatchParameters& p, const RowMetadataLayout& shape,
                                        u32 token, char* metadata) const {
    if (is_first_lane()) {
      *(float*)metadata = factor;
    }
    write_scales(p, p.scales + token * p.scale_bytes, metadata + shape.scales);
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 k = round * 32 + lane_id();
      if (!p.cached && k < p.top_k) {
        ((u64*)(metadata + shape.entries))[k] = entries[round];
        ((float*)(metadata + shape.weights))[k] = weights[round];
      }
    }
  }
};
