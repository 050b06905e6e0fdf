// A ring of slots in shared memory through which one warp brings rows, or pieces of rows, by bulk
// loads, and other warps of its pipeline read them in the same order.
//
// A slot has two barriers: `full` (its bytes have arrived) and `empty` (every reading warp has read
// it). The slot with the first row of a job also carries its description. The waits for them have
// no deadline: bulk loads end, and reading warps wait for nothing else.
#pragma once
#include "combine/combine_parameters.cuh"

// Older GPUs have no bulk loads.
#if EP4J_TMA

// Pipelines of a block, and biases of a token, as in org.ep4j.cuda.engine.throughput.RingStages.
constexpr u32 PIPELINES = 2;
constexpr u32 MAX_BIASES = 2;

template <class Job>
struct RowRing {
  char* slots;
  u64* full;
  u64* empty;
  Job* jobs;
  const char** list;  // the biases and rows of a token
  float* weights;     // of the listed rows
  u32 slot_bytes;
  u32 count;

  __device__ __forceinline__ RowRing(const CombineParameters& p, char* shared, u32 pipeline)
      : slots(shared + pipeline * bytes(p)),
        full((u64*)(slots + p.slots * p.slot_bytes)),
        empty(full + p.slots),
        jobs((Job*)(empty + p.slots)),
        list((const char**)(jobs + p.slots)),
        weights((float*)(list + MAX_ROWS + MAX_BIASES)),
        slot_bytes((u32)p.slot_bytes),
        count((u32)p.slots) {}

  // A multiple of 128: bulk copies whose two addresses differ within a line take a third longer.
  static __device__ __forceinline__ u32 bytes(const CombineParameters& p) {
    u32 all = (u32)(p.slots * (p.slot_bytes + 2 * sizeof(u64) + sizeof(Job))) +
              (MAX_ROWS + MAX_BIASES) * (sizeof(const char*) + sizeof(float));
    return (all + 127) / 128 * 128;
  }

  // One warp; then a barrier of the block.
  __device__ __forceinline__ void init(u32 readers) const {
    for (u32 i = lane_id(); i < count; i += 32) {
      barrier_init(&full[i]);
      barrier_init(&empty[i], readers);
    }
    barrier_init_done();
  }
};

// A slot of a ring, and how often the ring has been passed.
struct RingPosition {
  u32 slot = 0;
  u32 parity = 0;

  template <class Job>
  __device__ __forceinline__ void advance(const RowRing<Job>& ring) {
    if (++slot == ring.count) {
      slot = 0;
      parity ^= 1;
    }
  }

  // The writer: waits until all readers have read the slot.
  template <class Job>
  __device__ __forceinline__ void await_empty(const RowRing<Job>& ring) const {
    barrier_wait(&ring.empty[slot], parity ^ 1);
  }

  // A reader.
  template <class Job>
  __device__ __forceinline__ void await_full(const RowRing<Job>& ring) const {
    barrier_wait(&ring.full[slot], parity);
  }

  // A reading warp has read the slot.
  template <class Job>
  __device__ __forceinline__ void release(const RowRing<Job>& ring) {
    __syncwarp();
    if (is_first_lane()) {
      barrier_arrive(&ring.empty[slot]);
    }
    advance(ring);
  }

  // The writer: brings bytes into the slot; one lane.
  template <class Job>
  __device__ __forceinline__ void load(const RowRing<Job>& ring, const char* from, u32 bytes) {
    u64* full = &ring.full[slot];
    barrier_expect(full, bytes);
    bulk_load(ring.slots + slot * ring.slot_bytes, from, bytes, full);
    advance(ring);
  }

  // The writer: a slot that only carries a job; one lane.
  template <class Job>
  __device__ __forceinline__ void pass(const RowRing<Job>& ring) {
    barrier_arrive(&ring.full[slot]);
    advance(ring);
  }
};

#endif
