// High-throughput combine of FLAT rows within one node: summed by the rank that owns the token. It
// pulls them if the rows of all ranks can be read by their peers (pull_flat_rows.cuh); else they are
// pushed unchanged (token_sums.cuh).
//
// A rank whose own rows cannot be read knows that all ranks push. Its kernel (`_push`) awaits no
// places and has no code for pulls, which costs pushes 4 to 9 % of their time.
//
// Roles of a push, in every block:
//   warps 0..push_warps-1   push groups of four rows into return buffers and raise the words of the
//                           groups (release); then sum
//   the other warps         sum parts of tokens: wait for the groups of the rows (acquire), add, store
// Of both: block 0 also publishes `ready` to all peers, and the last block to finish ends the epoch.
// Budget: 512 threads at most, one block an SM, so at most 128 registers a thread: 2 rows and 4
// vectors of a lane at a time. Shared memory: for each pushing warp STAGES stages of stage_bytes
// and their barriers, 64 row pointers a warp, five words a rank.
//
// Invariant: rows are added in ascending rank order, whatever order they arrive in, so sums do not
// depend on timing. Pushing warps wait only for `ready`, never for rows, so every awaited row
// arrives.
#include "combine/pull_flat_rows.cuh"
#include "combine/token_sums.cuh"

template <class T>
struct FlatToken {
  using Element = T;
  static constexpr u32 VECTORS = 4;

  const char** rows;
  int count = 0;

  __device__ __forceinline__ explicit FlatToken(const char** rows) : rows(rows) {}

  __device__ __forceinline__ bool find(const CombineParameters& p, const WaitContext& w,
                                       const ReturnLayout& return_layout, const TokenRoutes& of) {
    u32 found = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 route = of.routes[round];
      bool valid = route != NO_ROUTE;
      u32 mask = __ballot_sync(0xffffffff, valid);
      bool there = true;
      if (valid) {
        const char* row = input_row(p, (u32)route, 16 / T::ELEMENTS);
        if (!is_local_input(p, route)) {
          row = await_return_row(p, w, return_layout, route, is_sum_witness());
          there = row != nullptr;
        }
        rows[found + __popc(mask & ((1u << lane_id()) - 1))] = row;
      }
      if (!__all_sync(0xffffffff, there)) {
        return false;
      }
      found += __popc(mask);
    }
    count = (int)found;
    __syncwarp();
    return true;
  }

  __device__ __forceinline__ void add_to(const CombineParameters&, float (*sum)[T::ELEMENTS],
                                         u32 first, u32 end) const {
    add_rows<T, T, VECTORS, 2>(sum, MemoryRows{rows}, count, first, end);
  }

  // In rank order, like the rows.
  __device__ __forceinline__ float weight(const CombineParameters& p, u32 k) const {
    float sum = 0;
    for (int i = 0; i < count; i++) {
      sum += __ldcg(row_weights(p, rows[i], 16 / T::ELEMENTS) + k);
    }
    return sum;
  }

  static __device__ __forceinline__ void push(const CombineParameters& p, const WaitContext& w,
                                              const RowGroups<ReturnLayout>& groups, char* stages,
                                              u64* barriers, const char** rows) {
#if EP4J_TMA
    Ring ring(stages, barriers, (u32)p.stage_bytes);
    push_rows(p, w, groups, ring, 16 / T::ELEMENTS);
#else
    push_sums<T, T>(p, w, groups, rows);
#endif
  }
};

// READABLE: this rank names a place of its rows.
template <class T, bool READABLE>
__device__ __forceinline__ void combine_flat(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  WaitContext w = make_wait_context((Control*)p.peers[p.rank], p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  publish_places(p, w);
  Decision decision = PUSH;
  if constexpr (READABLE) {
    ReadableRows readable(shared, p.ranks);
    decision = await_places(p, w, 16 / T::ELEMENTS, readable);
#if EP4J_TMA
    if (decision == PULL) {
      pull_rows<T, FlatRows>(p, w, readable, shared + p.table_bytes);
    }
#endif
  }
  if (decision == PUSH) {
    push_and_sum<FlatToken<T>>(p, w, shared);
  }
  end_pulls(p, w, decision);
}

namespace ep4j {

#define EP4J_COMBINE(name, T, READABLE)                   \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    combine_flat<T, READABLE>(p);                         \
  }

EP4J_COMBINE(combine_kernel_bf16, Bf16, true)
EP4J_COMBINE(combine_kernel_fp16, Fp16, true)
EP4J_COMBINE(combine_kernel_fp32, Fp32, true)
EP4J_COMBINE(combine_kernel_bf16_push, Bf16, false)
EP4J_COMBINE(combine_kernel_fp16_push, Fp16, false)
EP4J_COMBINE(combine_kernel_fp32_push, Fp32, false)

}  // namespace ep4j
