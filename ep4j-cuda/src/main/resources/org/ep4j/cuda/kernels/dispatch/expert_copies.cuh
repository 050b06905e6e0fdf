// EXPERT_MAJOR within one node, the receiving warps of GPUs with bulk copies. An SM stores 32 bytes a
// clock, however rows are copied; rings of bulk loads keep it at that while a warp waits for the
// next row.
#pragma once
#include "dispatch/expert_receive.cuh"

#if EP4J_TMA

// The arrived rows of a warp that have more than one destination: work of move_rows. The metadata of
// every arrived row is written to all its destinations.
struct ArrivedRows {
  const DispatchParameters& p;
  const WaitContext& w;
  const ArrivingSlots& arrivals;
  RowMetadataLayout shape;
  WorkCounter taken;
  RowDestinations destinations;

  __device__ __forceinline__ ArrivedRows(const DispatchParameters& p, const WaitContext& w,
                                         const ArrivingSlots& arrivals)
      : p(p), w(w), arrivals(arrivals), shape(p), taken(&w.control->jobs) {}

  // Ends early on abort.
  __device__ __forceinline__ bool next() {
    const u64* words = (const u64*)(p.peers[p.rank] + p.arrivals_offset);
    for (;;) {
      u32 job = taken.next();
      u32 source;
      u32 slot;
      u32 token;
      if (job >= arrivals.jobs) {
        return false;
      }
      if (!arrivals.find(job, source, slot)) {
        continue;
      }
      if (!__all_sync(0xffffffff, wait_arrival(w, words + slot, source, writer_for(p, source), token, is_arrival_witness()))) {
        return false;
      }
      RowMetadata parts;
      parts.load_metadata(p, shape, metadata_of(p, slot));
      destinations = destinations_of(p, parts, slot);
      scatter(p, destinations, parts, metadata_of(p, slot) + shape.scales, token, source);
      if (destinations.size() > 1) {
        // The word was acquired by ordinary loads; a bulk load reads the row.
        fence_proxy();
        return true;
      }
    }
  }

  __device__ __forceinline__ const char* row() const { return place(destinations.first); }

  __device__ __forceinline__ char* destination(u32 round) const {
    u32 row = destinations.rows[round];
    return row == NO_ROW || row == destinations.first ? nullptr : place(row);
  }

 private:
  __device__ __forceinline__ char* place(u32 row) const {
    return p.peers[p.rank] + p.rows_offset + row * p.row_bytes;
  }
};

#endif
