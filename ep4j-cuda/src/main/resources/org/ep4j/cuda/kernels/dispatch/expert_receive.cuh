// EXPERT_MAJOR, the receiving warps. Each arrived row is copied from its first row to its rows in
// the groups of the other experts, and its metadata to all of them.
//
// A slot's arrival word. Writer: the notifying warp of the sender, behind a system-wide fence after
// row and metadata, or a rail that forwards the row (internode_expert_record.cuh); reader: a receiving warp,
// acquire. The word carries the token.
#pragma once
#include "dispatch/expert_layout.cuh"
#include "dispatch/row_metadata.cuh"

// The slots that this rank receives, in about the order in which they are sent: each source's
// blocks send their tokens at the same pace. A receiving warp takes the next few jobs when it is
// idle.
struct ArrivingSlots {
  const DispatchParameters& p;
  const RankSlots& slots;
  u32 jobs;

  // All lanes.
  __device__ __forceinline__ ArrivingSlots(const DispatchParameters& p, const RankSlots& slots)
      : p(p), slots(slots), jobs(0) {
    u32 largest = largest_of(slots.arriving, (u32)p.ranks);
    u32 blocks = (u32)p.push_blocks;
    jobs = (largest + blocks - 1) / blocks * blocks * (u32)p.ranks;
  }

  // Takes `n` jobs exclusively; returns the first. All lanes.
  __device__ __forceinline__ u32 take(u32 n) const {
    Control* control = (Control*)p.peers[p.rank];
    u32 first = 0;
    if (is_first_lane()) {
      first = (u32)atomicAdd(&control->jobs, (u64)n);
    }
    return __shfl_sync(0xffffffff, first, 0);
  }

  // The slot of a job; false if the job has none.
  __device__ __forceinline__ bool find(u32 job, u32& source, u32& slot) const {
    u32 blocks = (u32)p.push_blocks;
    u32 step = job / (u32)p.ranks;
    source = job - step * (u32)p.ranks;
    TokenRange token_range = TokenRange::of(slots.arriving[source], step % blocks, blocks);
    u32 number = token_range.begin + step / blocks;
    slot = slots.first[source] + number;
    return job < jobs && number < token_range.end && slot < p.receive_slots;
  }
};

// Whether this thread may witness waits for rows (observation.cuh): block 0 sends before it receives.
__device__ __forceinline__ bool is_arrival_witness() { return blockIdx.x == 0 && is_first_thread(); }

// Destinations of a row. Lane i holds the rows i and i + 32 and their choices.
struct RowDestinations {
  u32 rows[2];
  u32 choices[2];
  u32 masks[2];
  u32 first;  // the lowest row, where the row has arrived

  __device__ __forceinline__ void count() {
    masks[0] = __ballot_sync(0xffffffff, rows[0] != NO_ROW);
    masks[1] = __ballot_sync(0xffffffff, rows[1] != NO_ROW);
    first = __reduce_min_sync(0xffffffff, min(rows[0], rows[1]));
  }

  // Calls body(row) for every destination; all lanes.
  template <class Body>
  __device__ __forceinline__ void each(Body body) const {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      for (u32 mask = masks[round]; mask != 0; mask &= mask - 1) {
        body(__shfl_sync(0xffffffff, rows[round], __ffs(mask) - 1));
      }
    }
  }

  // How many rows.
  __device__ __forceinline__ u32 size() const { return __popc(masks[0]) + __popc(masks[1]); }

  // From the entries of row metadata.
  __device__ __forceinline__ void read(const DispatchParameters& p, const u64* entries) {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u64 entry = entries[round];
      bool here = route_rank(entry) == p.rank && route_slot(entry) < p.limit;
      rows[round] = here ? route_slot(entry) : NO_ROW;
      choices[round] = round * 32 + lane_id();
    }
    count();
  }

  // From the handle.
  __device__ __forceinline__ void restore(const DispatchParameters& p, u32 slot) {
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      u32 i = round * 32 + lane_id();
      u64 packed = i < p.top_k ? p.slot_rows[(u64)slot * p.top_k + i] : NO_ROUTE;
      rows[round] = packed == NO_ROUTE ? NO_ROW : (u32)packed;
      choices[round] = (u32)(packed >> 32);
    }
    count();
  }

  // Into the handle, in ascending order: a combine sums in this order. `weights` are those of this
  // lane's choices.
  __device__ __forceinline__ void save(const DispatchParameters& p, u32 slot,
                                       const float* weights) const {
    u64* slot_rows = p.slot_rows + (u64)slot * p.top_k;
    u32 before[2] = {0, 0};
    each([&](u32 row) {
      before[0] += row < rows[0];
      before[1] += row < rows[1];
    });
    u32 count = size();
#pragma unroll
    for (u32 round = 0; round < 2; round++) {
      if (rows[round] != NO_ROW) {
        slot_rows[before[round]] = pack_route(choices[round], rows[round]);
        if (p.weights != nullptr) {
          p.slot_weights[(u64)slot * p.top_k + before[round]] = weights[round];
        }
      }
      u32 i = round * 32 + lane_id();
      if (i >= count && i < p.top_k) {
        slot_rows[i] = NO_ROUTE;
      }
    }
  }
};

__device__ __forceinline__ void copy_row(const DispatchParameters& p, const RowDestinations& destinations) {
  constexpr u32 U = 8;  // vectors of a lane at a time
  char* rows = p.peers[p.rank] + p.rows_offset;
  const char* from = rows + destinations.first * p.row_bytes;
  u32 bytes = (u32)p.row_bytes;
  for (u32 first = lane_id() * 16; first < bytes + lane_id() * 16; first += 512 * U) {
    uint4 held[U];
#pragma unroll
    for (u32 u = 0; u < U; u++) {
      u32 at = first + u * 512;
      held[u] = at < bytes ? load_row(from + at) : make_uint4(0, 0, 0, 0);
    }
    destinations.each([&](u32 row) {
      if (row != destinations.first) {
        char* to = rows + row * p.row_bytes;
#pragma unroll
        for (u32 u = 0; u < U; u++) {
          u32 at = first + u * 512;
          if (at < bytes) {
            store_row(to + at, held[u]);
          }
        }
      }
    });
  }
}

// Copies the metadata of a row to all its destinations. Weights are those of this lane's choices,
// which in a new dispatch are also its destinations.
__device__ __forceinline__ void scatter(const DispatchParameters& p, const RowDestinations& destinations,
                                       const RowMetadata& parts, const char* scales_from, u32 token,
                                       u32 source) {
  char* region = p.peers[p.rank];
#pragma unroll
  for (u32 round = 0; round < 2; round++) {
    u32 row = destinations.rows[round];
    if (row != NO_ROW) {
      ((int*)(region + p.tokens_offset))[row] = (int)token;
      ((int*)(region + p.sources_offset))[row] = (int)source;
      if (!p.cached && p.weights != nullptr) {
        ((float*)(region + p.weights_offset))[row] = parts.weights[round];
      }
      if (p.factors != nullptr) {
        ((float*)(region + p.factors_offset))[row] = parts.factor;
      }
    }
  }
  destinations.each([&](u32 row) {
    parts.write_scales(p, scales_from, region + p.scales_offset + row * p.scale_bytes);
  });
}

// The destinations of the row in a slot, which the handle keeps.
__device__ __forceinline__ RowDestinations destinations_of(const DispatchParameters& p,
                                                           const RowMetadata& parts, u32 slot) {
  RowDestinations destinations;
  if (p.cached) {
    destinations.restore(p, slot);
  } else {
    destinations.read(p, parts.entries);
    destinations.save(p, slot, parts.weights);
  }
  return destinations;
}

__device__ __forceinline__ const char* metadata_of(const DispatchParameters& p, u32 slot) {
  return p.peers[p.rank] + p.metadata_offset + slot * p.metadata_bytes;
}

__device__ __forceinline__ void receive_row(const DispatchParameters& p, const RowMetadataLayout& shape,
                                            const RowMetadata& parts, u32 slot, u32 token,
                                            u32 source) {
  RowDestinations destinations = destinations_of(p, parts, slot);
  if (destinations.size() > 1) {
    copy_row(p, destinations);
  }
  scatter(p, destinations, parts, metadata_of(p, slot) + shape.scales, token, source);
}

// Receives BATCH rows at a time, whose latencies overlap.
template <u32 BATCH>
__device__ __forceinline__ void receive_rows(const DispatchParameters& p, const WaitContext& w,
                                             const ArrivingSlots& arrivals) {
  RowMetadataLayout shape(p);
  const char* region = p.peers[p.rank];
  const u64* words = (const u64*)(region + p.arrivals_offset);
  u32 next = arrivals.take(BATCH);
  while (next < arrivals.jobs) {
    u32 first = next;
    next = arrivals.take(BATCH);
    // Each lane waits for the arrival word of one job.
    u32 source = 0;
    u32 slot = 0;
    u32 token = 0;
    bool some = lane_id() < BATCH && arrivals.find(first + lane_id(), source, slot);
    bool there = !some || wait_arrival(w, words + slot, source, writer_for(p, source), token, is_arrival_witness());
    if (!__all_sync(0xffffffff, there)) {
      return;
    }
    u32 found = __ballot_sync(0xffffffff, some);
    RowMetadata parts[BATCH];
#pragma unroll
    for (u32 i = 0; i < BATCH; i++) {
      u32 its_slot = __shfl_sync(0xffffffff, slot, i);
      if (found >> i & 1) {
        parts[i].load_metadata(p, shape, metadata_of(p, its_slot));
      }
    }
#pragma unroll
    for (u32 i = 0; i < BATCH; i++) {
      u32 its_slot = __shfl_sync(0xffffffff, slot, i);
      u32 its_token = __shfl_sync(0xffffffff, token, i);
      u32 its_source = __shfl_sync(0xffffffff, source, i);
      if (found >> i & 1) {
        receive_row(p, shape, parts[i], its_slot, its_token, its_source);
      }
    }
  }
}
