// High-throughput combine across nodes, in one kernel: as combine.cu, and what this node has for tokens of
// ranks of other nodes goes back through the rail by which they came, in slots (far.cuh).
//
// Roles of a block's warps, in this order:
//   pushing    rows to the ranks of this node that they belong to, or to rails of those of other nodes
//   returning  take the chunks of the givers: sum, or copy, what has been pushed here for their tokens
//   telling    one, of the slots that the returning ones have filled (far_mail.cuh)
//   summing    take the chunks of this rank: what its node has and what came from others
// Pushing warps wait only for other ranks to enter; returning ones for rows and for room in slots;
// summing ones for rows and for slots. Chunks are taken in ascending order by all, so the lowest one
// can always go on.
#include "far_return.cuh"
#include "far_sum.cuh"
#include "push_home.cuh"

template <class T, class H>
__device__ __forceinline__ void far_combine(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ FarWorld far;
  u32 warps = blockDim.x >> 5;
  Control* control = (Control*)p.peers[p.rank];
  Watch w = watch_of(control, p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt, CombineEntries{p})) {
    return;
  }
  take_world(far, p.far);
  __shared__ Letter letters[MOST_FILLING];
  clear_letters(letters);
  // Shared memory: stages of pushing warps, pieces of returning ones, inlets of summing ones,
  // barriers, pointers, words.
  char* pieces = shared + p.push_warps * STAGES * p.stage_bytes;
  char* inlets = pieces + p.return_warps * Outlet::PIECES * Outlet::BYTES;
  u64* barriers = (u64*)(inlets + p.sum_warps * p.inlet_bytes);
  u64* inlet_barriers = barriers + p.push_warps * STAGES;
  const char** pointers = (const char**)(inlet_barriers + p.sum_warps);
  const char** slots = pointers + 64 * warps;
  u32* taken = (u32*)(slots + far.nodes * warps);
  u32* stream_words = taken + far.nodes * warps;
  u32* home_words = stream_words + Streams::words(far.partners);

  if (blockIdx.x == 0 && threadIdx.x < p.ranks && p.peers[threadIdx.x] != nullptr) {
    store_release_system((u64*)(p.peers[threadIdx.x] + p.ready_offset) + p.rank, w.epoch);
  }
  Streams streams(far, stream_words, p.tokens, p.chunk_tokens,
                  [&](u32 rank) { return p.matrix[p.ranks * (p.ranks + 1) + rank]; });
  FarHomes homes(home_words, p.ranks, far);
  homes.fill(p, far, streams);
  u32 warp = warp_id();
  u32 returning = warp - (u32)p.push_warps;
  u32 summing = returning - (u32)p.return_warps - 1;
  const char** rows = pointers + 64 * warp;
  if (warp < p.push_warps) {
    Groups<FarHomes> groups(p, homes, w);
#if EP4J_TMA
    if (p.places == nullptr) {
      Ring ring(shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                (u32)p.stage_bytes);
      push_rows(p, w, groups, ring, 16 / T::ELEMENTS);
    } else {
      push_sums<T, H>(p, w, groups, rows);
    }
#else
    push_sums<T, H>(p, w, groups, rows);
#endif
  } else if (returning < p.return_warps) {
    char* its_pieces = pieces + returning * Outlet::PIECES * Outlet::BYTES;
    return_chunks(Returner<T, H>(p, far, w, homes, streams, its_pieces, rows), letters[returning],
                  returning);
  } else if (returning == p.return_warps) {
    tell_slots(far, w, letters, (u32)p.return_warps);
  } else if (summing < p.sum_warps) {
    Inlet inlet(inlets + summing * p.inlet_bytes, (u32)p.inlet_bytes, inlet_barriers + summing);
    Summer<T, H> summer(p, far, w, homes, streams, inlet, rows, slots + far.nodes * warp,
                        taken + far.nodes * warp);
    u32 stride = gridDim.x * (u32)p.sum_warps;
    for (u32 c = summing * gridDim.x + blockIdx.x; c < streams.own; c += stride) {
      if (!summer.sum(c)) {
        break;
      }
    }
  }
  if (last_block(control)) {
    if (!aborted(w)) {
      streams.advance(far, true);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      end_epoch(w, p.receipt, CombineEntries{p});
    }
  }
}

// Rows of the named type; the second type is that in which they travel.
#define EP4J_FAR_COMBINE(name, T, H)                            \
  extern "C" __global__ void __launch_bounds__(512, 1)          \
      name(const __grid_constant__ CombineParameters p) {       \
    far_combine<T, H>(p);                                       \
  }

EP4J_FAR_COMBINE(ep4j_far_combine_bf16, Bf16, Bf16)
EP4J_FAR_COMBINE(ep4j_far_combine_fp16, Fp16, Fp16)
EP4J_FAR_COMBINE(ep4j_far_combine_fp32, Fp32, Fp32)
EP4J_FAR_COMBINE(ep4j_far_combine_bf16_exact, Bf16, Fp32)
EP4J_FAR_COMBINE(ep4j_far_combine_fp16_exact, Fp16, Fp32)
