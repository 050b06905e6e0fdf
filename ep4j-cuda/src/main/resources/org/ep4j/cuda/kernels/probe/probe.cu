// Throughput of the links between GPUs: pushes rows to peers without counts, flags or order. The
// dispatch moves rows with the same code (rows.cuh), so its distance to this result is the cost of
// its protocol.
//
// Roles: all warps of a block push, each with its own ring. Row r goes to the destinations in an
// order that starts at a different one for each row, so that at every moment rows travel to all of
// them. Budget: 512 threads at most. Shared memory: the stages of all warps, then their barriers.
// Invariant: each warp owns its rows and its ring; warps share nothing.
#include "common/rows.cuh"

// The rows of one warp: every `step`-th of all pairs (row, destination).
struct Pushes {
  const char* source;    // [destinations, rows]
  char* const* targets;  // [destinations] first row of this GPU at each destination
  u32 destinations;
  u32 rows;
  u64 row_bytes;
  u32 at;
  u32 step;
  u32 current;
  u32 to;

  __device__ __forceinline__ bool next() {
    if (at >= rows * destinations) {
      return false;
    }
    current = at / destinations;
    to = (at + current) % destinations;
    at += step;
    return true;
  }

  __device__ __forceinline__ const char* row() const {
    return source + ((u64)to * rows + current) * row_bytes;
  }

  __device__ __forceinline__ char* destination(u32 round) const {
    return is_first_lane() && round == 0 ? targets[to] + current * row_bytes : nullptr;
  }
};

extern "C" __global__ void __launch_bounds__(512)
    ep4j_probe_push(const char* source, char* const* targets, u64 destinations, u64 rows,
                    u64 row_bytes, u64 stage_bytes) {
  extern __shared__ __align__(128) char shared[];
  u32 warps = blockDim.x >> 5;
  u64* barriers = (u64*)(shared + warps * STAGES * stage_bytes);
  Ring ring(shared + warp_id() * STAGES * stage_bytes, barriers + warp_id() * STAGES,
            (u32)stage_bytes);
  Pushes mine{source,
              targets,
              (u32)destinations,
              (u32)rows,
              row_bytes,
              blockIdx.x * warps + warp_id(),
              gridDim.x * warps,
              0,
              0};
  move_rows(ring, mine, (u32)row_bytes);
}

// Holds its stream until the host opens the gate or the limit has passed: kernels on several GPUs
// then start together.
extern "C" __global__ void ep4j_probe_latch(const u64* latch, u64 wanted, u64 limit_nanoseconds) {
  u64 deadline = nanoseconds() + limit_nanoseconds;
  while (load_acquire_system(latch) < wanted && nanoseconds() < deadline) {
  }
}

__device__ __forceinline__ u32 pattern(u64 seed, u64 at) {
  u32 x = (u32)(at ^ at >> 32) * 0x9E3779B1u ^ (u32)seed * 0x85EBCA77u;
  x = (x ^ x >> 15) * 0x2C1B3C6Du;
  return x ^ x >> 12;
}

// Words that are unlikely under any other seed or position.
extern "C" __global__ void ep4j_probe_fill(u32* at, u64 words, u64 seed) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    at[i] = pattern(seed, i);
  }
}

// Counts the words that differ from those of ep4j_probe_fill.
extern "C" __global__ void ep4j_probe_check(const u32* at, u64 words, u64 seed, u64* wrong) {
  u32 mine = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    mine += at[i] != pattern(seed, i);
  }
  if (mine != 0) {
    atomicAdd(wrong, (u64)mine);
  }
}
