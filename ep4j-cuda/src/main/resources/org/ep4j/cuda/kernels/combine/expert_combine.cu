// High-throughput combine of EXPERT_MAJOR rows within one node.
//
// A rank first adds the rows of a token on it, in ascending local expert order; in
// weighted_expert_combine.cu it multiplies each by its weight before. It pushes the sum into the
// return buffer of the rank that owns the token (push_return_rows.cuh), in the type of the rows
// (rounded) or as float32. The rank that owns the token does the same with the rows of its own
// experts, and rounds their sum as if it had travelled.
//
// With bulk loads, the warps of a block form pipelines (expert_jobs.cuh); else each warp sums from
// memory (expert_token.cuh). Block 0 also publishes `ready` to all peers, and that they cannot read
// this rank's rows; the last block to finish ends the epoch.
// Budget: EXPERT_COMBINE_THREADS threads at most, one block an SM. With bulk loads at most 96 registers
// a thread: one of the SM's four schedulers has five of the 17 warps. Without 128. Shared memory: five
// words a rank, the rings; without bulk loads those of combine.cu.
//
// Invariant: the order of additions and the place of the rounding are fixed by rank and local
// expert number, so sums do not depend on timing or on the rank that holds a row.
#include "combine/add_expert_rows.cuh"
#include "combine/bring_expert_rows.cuh"
#include "combine/expert_token.cuh"
#include "combine/row_places.cuh"

// As in org.ep4j.cuda.engine.launch.Kernels.
#if EP4J_TMA
constexpr u32 EXPERT_COMBINE_THREADS = 544;
#else
constexpr u32 EXPERT_COMBINE_THREADS = 512;
#endif

#if EP4J_TMA

// Waits until all ranks have entered: from then on the return rows of their previous combine are no
// longer read. All threads.
__device__ __forceinline__ bool await_entries(const CombineParameters& p, const WaitContext& w) {
  bool failed = false;
  const u64* ready = (const u64*)(p.peers[p.rank] + p.ready_offset);
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    failed = (p.peers[r] != nullptr && !wait_epoch(w, ready + r, PHASE_ENTER, r, blockIdx.x == 0)) || failed;
  }
  return !__syncthreads_or(failed);
}

// Sums the weights of tokens: thread `thread` of `threads` of the rank. A choice has at most one
// weight that is not 0.
__device__ __forceinline__ void sum_weights(const CombineParameters& p, const WaitContext& w,
                                            const ReturnLayout& return_layout, u32 element_bytes,
                                            u64 thread, u64 threads) {
  u32 top_k = (u32)p.top_k;
  for (u64 i = thread; i < p.tokens * top_k; i += threads) {
    const u64* routes = p.routes + i / top_k * top_k;
    u32 choice = (u32)(i % top_k);
    float sum = 0;
    for (u32 k = 0; k < top_k; k++) {
      if (is_local_input(p, routes[k])) {
        sum = input_weight(p, (u32)routes[k], choice);
      }
    }
    for (u32 k = 0; k < top_k; k++) {
      if (routes[k] != NO_ROUTE && !is_local_input(p, routes[k])) {
        const char* row = await_return_row(p, w, return_layout, routes[k], false);
        if (row == nullptr) {
          return;
        }
        sum += __ldcg(row_weights(p, row, element_bytes) + choice);
      }
    }
    p.out_weights[i] = sum;
  }
}

// Rows of type T that travel as H. `shared` is the block's dynamic shared memory.
template <class T, class H>
__device__ __forceinline__ void push_and_sum_experts(const CombineParameters& p, const WaitContext& w,
                                                     char* shared) {
  __shared__ PushNotices notices[PIPELINES];
  u32 warps = (blockDim.x >> 5) / PIPELINES;
  u32 adding = warps - 1;
  u32 pipeline = warp_id() / warps;
  u32 warp = warp_id() - pipeline * warps;
  bool notifies = pipeline == PIPELINES;
  ExpertRing ring(p, shared + p.table_bytes, notifies ? 0 : pipeline);
  if (warp == 0 && !notifies) {
    ring.init(adding);
    notices[pipeline].init();
  }
  ReturnLayout return_layout(p, shared);
  return_layout.fill(p);
  if (!await_entries(p, w)) {
    return;
  }
  if (notifies) {
    notify_groups(w, notices, adding);
    if (p.weights != nullptr && p.column == 0) {
      sum_weights(p, w, return_layout, 16 / T::ELEMENTS, (u64)blockIdx.x * 32 + lane_id(),
                  (u64)gridDim.x * 32);
    }
  } else if (warp == 0) {
    ExpertRowBringer<T, H>{p, w, return_layout, ring}.run(notices[pipeline]);
  } else {
    ExpertSums<T, H> sums{p, ring, (warp - 1) * 32 + lane_id(), adding * 32};
    sums.run(notices[pipeline], warp - 1);
  }
}

#else

template <class T, class H>
__device__ __forceinline__ void push_and_sum_experts(const CombineParameters& p, const WaitContext& w,
                                                     char* shared) {
  push_and_sum<ExpertToken<T, H>>(p, w, shared);
}

#endif

// Rows of type T that travel as H.
template <class T, class H>
__device__ __forceinline__ void combine_grouped(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  Control* control = (Control*)p.peers[p.rank];
  WaitContext w = make_wait_context(control, p.record, p.host_abort, p.timeout);
  if (exit_early(w, p.receipt, CombineEntrySignals{p})) {
    return;
  }
  publish_places(p, w);
  push_and_sum_experts<T, H>(p, w, shared);
  if (last_block(control) && threadIdx.x < 32) {
    end_epoch(w, p.receipt, CombineEntrySignals{p});
  }
}

namespace ep4j {

#define EP4J_EXPERT_COMBINE(name, T, H)                        \
  __global__ void __launch_bounds__(EXPERT_COMBINE_THREADS, 1) \
      name(const __grid_constant__ CombineParameters p) {      \
    combine_grouped<T, H>(p);                                  \
  }

EP4J_EXPERT_COMBINE(expert_combine_kernel_bf16, Bf16, Bf16)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp16, Fp16, Fp16)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp32, Fp32, Fp32)
EP4J_EXPERT_COMBINE(expert_combine_kernel_bf16_exact, Bf16, Fp32)
EP4J_EXPERT_COMBINE(expert_combine_kernel_fp16_exact, Fp16, Fp32)

}  // namespace ep4j
