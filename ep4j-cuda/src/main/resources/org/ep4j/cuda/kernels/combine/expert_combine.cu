// High-throughput combine of EXPERT_MAJOR rows within one node, see token_sums.cuh.
//
// The pusher first adds the rows of a token on its rank, in ascending local expert order; in
// weighted_expert_combine.cu it multiplies each by its weight before. The sum
// travels in the type of the rows (rounded) or as float32. The rank that owns the token does the
// same with the rows of its own experts, and rounds their sum as if it had travelled.
//
// Roles and shared memory are those of combine.cu, but no stages are used: pushing warps sum into
// registers and store from there. Budget: 512 threads at most, one block an SM, so at most 128
// registers a thread: 2 vectors of a lane, 1 to 3 rows at a time.
//
// Invariant: the order of additions and the place of the rounding are fixed by rank and local
// expert number, so sums do not depend on timing or on the rank that holds a row.
#include "combine/token_sums.cuh"

// Rows of type T; pushed sums travel as H. `rows` lists rows from ranks before this one, then the
// rows of own experts, then rows from ranks after it.
template <class T, class H>
struct ExpertToken {
  using Element = T;
  static constexpr u32 VECTORS = 2;

  // Rows at a time, bounded by registers: from the return buffer, and of own experts.
  static constexpr u32 RETURN_ROWS = H::ELEMENTS == T::ELEMENTS ? 2 : 1;
  static constexpr u32 OWN_ROWS = 3;

  const char** rows;
  int before = 0;
  int own = 0;
  int after = 0;
  u32 own_flat = 0;  // FLAT row of the rows of own experts

  __device__ __forceinline__ explicit ExpertToken(const char** rows) : rows(rows) {}

  __device__ __forceinline__ bool find(const CombineParameters& p, const WaitContext& w,
                                       const ReturnLayout& return_layout, const TokenRoutes& of) {
    u32 below = (1u << lane_id()) - 1;
    u32 found = 0;
    own = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 route = of.routes[round];
      bool valid = route != NO_ROUTE;
      u32 local_mask = __ballot_sync(0xffffffff, valid && is_local_input(p, route));
      u32 mask = __ballot_sync(0xffffffff, valid) & ~local_mask;
      u32 at = found + own + __popc(mask & below);
      if (local_mask != 0) {
        u32 lane = __ffs(local_mask) - 1;
        own_flat = __shfl_sync(0xffffffff, (u32)route, lane);
        before = __shfl_sync(0xffffffff, (int)at, lane);
        own = list_input_rows(p, own_flat, 16 / T::ELEMENTS, rows + before,
                              weights_of(rows) + before);
        at += lane_id() > lane ? own : 0;
      }
      bool there = true;
      if (mask >> lane_id() & 1) {
        rows[at] = await_return_row(p, w, return_layout, route);
        there = rows[at] != nullptr;
      }
      if (!__all_sync(0xffffffff, there)) {
        return false;
      }
      found += __popc(mask);
    }
    before = own == 0 ? (int)found : before;
    after = (int)found - before;
    __syncwarp();
    return true;
  }

  __device__ __forceinline__ void add_to(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                         u32 first, u32 end) const {
    add_rows<T, H, VECTORS, RETURN_ROWS>(sum, MemoryRows{rows}, before, first, end);
    if (own > 0) {
      add_own(p, sum, first, end);
      add_rows<T, H, VECTORS, RETURN_ROWS>(sum, MemoryRows{rows + before + own}, after, first, end);
    }
  }

  // A choice has at most one weight.
  __device__ __forceinline__ float weight(const CombineParameters& p, u32 k) const {
    float sum = own == 0 ? 0 : input_weight(p, own_flat, k);
    for (int i = 0; i < before + after; i++) {
      const char* row = rows[i < before ? i : i + own];
      sum += __ldcg(row_weights(p, row, 16 / T::ELEMENTS) + k);
    }
    return sum;
  }

  static __device__ __forceinline__ void push(const CombineParameters& p, const WaitContext& w,
                                              const RowGroups<ReturnLayout>& groups, char*, u64*,
                                              const char** rows) {
    push_sums<T, H>(p, w, groups, rows);
  }

 private:
  __device__ __forceinline__ void add_own(const CombineParameters& p, float (*sum)[T::ELEMENTS],
                                          u32 first, u32 end) const {
    constexpr u32 E = T::ELEMENTS;
    float part[VECTORS][E] = {};
    add_input_rows<T, VECTORS, OWN_ROWS>(p, part, rows + before, weights_of(rows) + before, own,
                                         first, end);
#pragma unroll
    for (u32 u = 0; u < VECTORS; u++) {
      if constexpr (H::ELEMENTS == E) {
        add_vector<T>(sum[u], round_vector<T>(part[u]));
      } else {
#pragma unroll
        for (u32 e = 0; e < E; e++) {
          sum[u][e] += part[u][e];
        }
      }
    }
  }
};

// Rows of type T that travel as H.
template <class T, class H>
__device__ __forceinline__ void combine_grouped(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  Control* control = (Control*)p.peers[p.rank];
  WaitContext w = make_wait_context(control, p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  publish_rows_ready(p, w);
  push_and_sum<ExpertToken<T, H>>(p, w, shared);
  if (last_block(control) && threadIdx.x == 0) {
    end_epoch(w, p.receipt, CombineEntrySignals{p});
  }
}

namespace ep4j {

#define EP4J_EXPERT_COMBINE(name, T, H)                   \
  __global__ void __launch_bounds__(512, 1)               \
      name(const __grid_constant__ CombineParameters p) { \
    combine_grouped<T, H>(p);                             \
  }

EP4J_EXPERT_COMBINE(expert_combine_kernel_bf16, Bf16, Bf16)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp16, Fp16, Fp16)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp32, Fp32, Fp32)
EP4J_EXPERT_COMBINE(expert_combine_kernel_bf16_exact, Bf16, Fp32)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp16_exact, Fp16, Fp32)

}  // namespace ep4j
