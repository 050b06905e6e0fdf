// Low-latency combine in one kernel; see low_latency.cuh for the words.
//
// Warps first push pieces of the experts' rows to the ranks that their tokens came from, each choice
// to a slot of its own. Then they take pieces of this rank's tokens, wait for the rows of their
// choices and add them, weighted, in the order of the choices. With partial sums, each rank learns
// the weights first, adds its own rows of a token and pushes one rounded sum; those are added in the
// order of the ranks. With a hook the two halves are two launches.
#include "low_latency_push.cuh"

// Adds what came home for a piece of a token, one row a choice.
template <Travel TRAVEL>
__device__ __forceinline__ void sum_choices(const Operation& op, char* const* areas, Sums& sums,
                                            u32 token, u32 piece) {
  const LowLatencyParameters& p = op.p;
  for (u32 first = 0; first < p.top_k; first += 32) {
    u32 k = first + lane_id();
    Choice choice(op, areas, token, k);
    u64 flag = 0;
    // Rows that the caller skips come as well: their place is not free before.
    bool came = choice.holder != NOBODY &&
                await_flag(op, op.home_flags(op.own, token, piece) + k, choice.holder, flag);
    u32 lanes = __ballot_sync(0xffffffff, came && choice.kept);
    const char* row = op.row(op.own, op.choice_slot(token, k));
    if (TRAVEL == TRAVEL_LOGFMT) {
      u32 packed = __ballot_sync(0xffffffff, (flag & FLAG_BIT) != 0);
      add_logfmt(sums, lanes, packed, row, choice.weight, piece, (u32)p.hidden);
    } else {
      add_weighted(sums, lanes, row, choice.weight, piece, (u32)p.hidden);
    }
  }
}

// The same, one partial sum a holder.
__device__ __forceinline__ void sum_partials(const Operation& op, char* const* areas, Sums& sums,
                                             u32 token, u32 piece) {
  const LowLatencyParameters& p = op.p;
  Choice low(op, areas, token, lane_id());
  Choice high(op, areas, token, lane_id() + 32);
  for (u32 first = 0; first < p.ranks; first += 32) {
    u32 r = first + lane_id();
    bool holds = false;
    for (u32 i = 0; i < 32 && i < p.top_k; i++) {
      u32 one = __shfl_sync(0xffffffff, low.holder, i);
      u32 other = __shfl_sync(0xffffffff, high.holder, i);
      holds = holds || one == r || other == r;
    }
    u64 flag;
    bool came = holds && await_flag(op, op.home_flags(op.own, token, piece) + r, r, flag);
    u32 lanes = __ballot_sync(0xffffffff, came);
    add_weighted(sums, lanes, op.row(op.own, op.token_slot(r, token)), 1, piece, (u32)p.hidden);
  }
}

template <Travel TRAVEL>
__device__ __forceinline__ void sum_rows(const Operation& op, char* const* areas, u32 block,
                                         u32 blocks) {
  const LowLatencyParameters& p = op.p;
  u32 pieces = pieces_of(p);
  for (u32 unit = warp_id() * blocks + block; unit < p.tokens * pieces; unit += blocks * WARPS) {
    u32 token = unit / pieces;
    u32 piece = unit - token * pieces;
    Sums sums;
    sums.clear();
    if (TRAVEL == TRAVEL_PARTIAL) {
      sum_partials(op, areas, sums, token, piece);
    } else {
      sum_choices<TRAVEL>(op, areas, sums, token, piece);
    }
    sums.store(p.out + (u64)token * p.hidden * 2, piece, (u32)p.hidden);
  }
}

template <Travel TRAVEL>
__device__ __forceinline__ void combine(const LowLatencyParameters& p) {
  extern __shared__ char* areas[];
  Operation op = operation_of(p);
  if (!begin(op, areas)) {
    return;
  }
  if (p.phases & SENDING) {
    if (TRAVEL == TRAVEL_PARTIAL) {
      tell_weights(op, areas, blockIdx.x, gridDim.x);
    }
    push_rows<TRAVEL>(op, areas);
  }
  if (p.phases & RECEIVING) {
    sum_rows<TRAVEL>(op, areas, blockIdx.x, gridDim.x);
  }
  if (!p.masking || !(p.phases & RECEIVING)) {
    finish(op);
    return;
  }
  if (!is_last_block(op)) {
    return;
  }
  while (receive_again(op)) {
    look_around(op, areas);
    sum_rows<TRAVEL>(op, areas, 0, 1);
    __syncthreads();
  }
  if (warp_id() == 0) {
    end_operation(op);
  }
}

#define EP4J_LOW_LATENCY_COMBINE(name, TRAVEL)               \
  extern "C" __global__ void __launch_bounds__(512, 1)       \
      name(const __grid_constant__ LowLatencyParameters p) { \
    combine<TRAVEL>(p);                                      \
  }

EP4J_LOW_LATENCY_COMBINE(ep4j_low_latency_combine, TRAVEL_BF16)
EP4J_LOW_LATENCY_COMBINE(ep4j_low_latency_combine_logfmt, TRAVEL_LOGFMT)
EP4J_LOW_LATENCY_COMBINE(ep4j_low_latency_combine_partial, TRAVEL_PARTIAL)
