// Low-latency combine in one kernel; see low_latency.cuh for the words.
//
// Roles:
//   all warps      push pieces of the experts' rows to the ranks that own the tokens, each choice to its own
//                  slot; then take pieces of this rank's tokens, wait for the rows of their choices and add
//                  them, weighted, in the order of choices or of experts
//   MAPPED         warps 0 to 13 push; warp 14 (RELAY) of block 0 relays group words, then sums as the others
//                  do; warp 15 publishes groups. PUTS: warp 0 of block 0 relays before it sums
//   last block     acknowledges the operation to the peers and ends it; with masks it may repeat the sums
// Partial sums: each rank first imports the weights, adds its own rows of a token and pushes one
// rounded sum; those are added in rank order. RANK_MAJOR rows, which the caller has summed, are
// also added in rank order. With a hook the two halves are two launches. See
// low_latency_internode.cuh for other nodes. Budget: 512 threads, one block an SM, so at most 128
// registers a thread. Shared memory: two pointers and one word a rank.
//
// Invariant: additions are ordered by choice, expert or rank, never by arrival. A pushing warp waits
// only for grants and weights, never for rows, so every awaited row arrives.
#include "lowlatency/low_latency_end.cuh"
#include "lowlatency/low_latency_push.cuh"

// Values of a row that a warp sums at a time: less than a piece, so that the rows of all choices
// are loaded at once. LogFMT is read in whole pieces.
constexpr u32 PART = 512;
constexpr u32 ROW_UNROLL = 6;
constexpr u32 PACKET_UNROLL = 4;  // divides 32

// The warp that witnesses waits for rows (observation.cuh): it also pushes first. MAPPED, the relay does.
__device__ __forceinline__ bool is_witness() { return !MAPPED && blockIdx.x == 0 && warp_id() == 0; }

// Adds the return rows for some values of a token, one row a choice.
template <ReturnFormat RETURN_FORMAT, u32 N>
__device__ __forceinline__ void sum_choices(const Operation& op, char* const* areas, Sums<N>& sums,
                                            u32 token, u32 first) {
  const LowLatencyParameters& p = op.p;
  u32 piece = first / PIECE;
  for (u32 begin = 0; begin < p.top_k; begin += 32) {
    u32 k = begin + lane_id();
    if (p.order_ids != nullptr) {
      k = choice_by_expert(p, token, k);
    }
    Choice choice(op, token, k);
    char* area = op.from(choice_holder(choice.choice));
    u64* flag_at = op.return_flags(area, token, piece) + k;
    bool groups = op.uses_groups(choice_holder(choice.choice));
    u64 flag = k < p.top_k && !groups ? load_acquire_system(flag_at) : 0;
    choice.check(op, areas);
    // Also waits for rows that the caller skips: their slot is in use until they have arrived.
    bool came = choice.holder != NO_RANK;
    // Of the lanes that wait for a holder, the first.
    bool witness = is_witness() && lane_id() + 1 == __ffs(__match_any_sync(0xffffffff, choice.holder));
    came = came && (groups ? await_group(op, choice.holder, token)
                           : await_flag(op, flag_at, choice.holder, flag, witness));
    if (RETURN_FORMAT == RETURN_LOGFMT && groups && came) {
      u64 packed = load_relaxed_system(op.packed(area, choice.holder, token, piece));
      flag = packed >> k & 1 ? FLAG_BIT : 0;
    }
    u32 lanes = __ballot_sync(0xffffffff, came && choice.kept);
    u32 writer = choice_holder(choice.choice);
    u64 slot = op.choice_slot(token, k);
    const char* row = op.row_of_slot(area, writer, writer, slot, slot);
    if constexpr (RETURN_FORMAT == RETURN_LOGFMT) {
      u32 packed = __ballot_sync(0xffffffff, (flag & FLAG_BIT) != 0);
      add_logfmt(sums, lanes, packed, row, choice.weight, piece, (u32)p.hidden);
    } else {
      add_weighted<ROW_UNROLL>(sums, lanes, row, choice.weight, first, (u32)p.hidden);
    }
  }
}

// The holder of this lane's choice of a token, or NO_RANK. A caller that has summed its rows has
// applied its routing: the ids of this combine are ignored.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ u32 holder_here(const Operation& op, char* const* areas, u32 token, u32 k) {
  if constexpr (RETURN_FORMAT == RETURN_SUMMED) {
    return k < op.p.top_k ? holder_of(op, areas, op.p.choices[op.choice_slot(token, k)]) : NO_RANK;
  } else {
    Choice choice(op, token, k);
    choice.check(op, areas);
    return choice.holder;
  }
}

// Whether rank `r` holds a row of a token.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ bool holds(const Operation& op, char* const* areas, u32 token, u32 r) {
  bool any = false;
  for (u32 begin = 0; begin < op.p.top_k; begin += 32) {
    u32 mine = holder_here<RETURN_FORMAT>(op, areas, token, begin + lane_id());
    for (u32 i = 0; i < 32; i++) {
      u32 holder = __shfl_sync(0xffffffff, mine, i);
      any = any || holder == r;
    }
  }
  return any;
}

// The same, one row a holder.
template <ReturnFormat RETURN_FORMAT, u32 N>
__device__ __forceinline__ void sum_partials(const Operation& op, char* const* areas, Sums<N>& sums,
                                             u32 token, u32 first) {
  const LowLatencyParameters& p = op.p;
  for (u32 begin = 0; begin < p.ranks; begin += 32) {
    u32 r = begin + lane_id();
    char* area = op.from(r);
    u64* flag_at = op.return_flags(area, token, first / PIECE) + r;
    bool awaited = holds<RETURN_FORMAT>(op, areas, token, r);
    u64 flag = r < p.ranks && !op.uses_groups(r) ? load_acquire_system(flag_at) : 0;
    bool came = awaited && (op.uses_groups(r) ? await_group(op, r, token)
                                               : await_flag(op, flag_at, r, flag, is_witness()));
    u32 lanes = __ballot_sync(0xffffffff, came);
    const char* row = op.row_of_slot(area, r, r, op.token_slot(r, token), token);
    add_weighted<4>(sums, lanes, row, 1, first, (u32)p.hidden);
  }
}

// The same for packets. The first packets are loaded before it is known whether they arrive.
template <ReturnFormat RETURN_FORMAT, u32 N>
__device__ __forceinline__ void sum_packets(const Operation& op, char* const* areas, Sums<N>& sums,
                                          u32 token, u32 first) {
  const LowLatencyParameters& p = op.p;
  u32 piece = first / PIECE;
  u32 begin = first % PIECE / 256;
  u32 bytes = bytes_from(p, piece, 16);
  u32 awaited = 0;
  for (u32 r = 0; r < p.ranks; r += PACKET_UNROLL) {
    LlPacketReader<N, VECTORS> rows[PACKET_UNROLL];
    const char* at[PACKET_UNROLL];
#pragma unroll
    for (u32 i = 0; i < PACKET_UNROLL; i++) {
      at[i] = packet_piece<VECTORS>(op, op.own, op.token_slot(r + i, token), piece);
      if (r + i < p.ranks && (r % 32 == 0 || awaited >> (r + i) % 32 & 1)) {
        rows[i].load(at[i], begin, bytes);
      }
    }
    if (r % 32 == 0) {
      awaited = __ballot_sync(0xffffffff, holds<RETURN_FORMAT>(op, areas, token, r + lane_id()));
    }
#pragma unroll
    for (u32 i = 0; i < PACKET_UNROLL; i++) {
      if (awaited >> (r + i) % 32 & 1 && rows[i].await(op, r + i, at[i], begin, bytes, is_witness() && is_first_lane())) {
#pragma unroll
        for (u32 v = 0; v < N; v++) {
          sums.add(v, rows[i].held[v], 1);
        }
      }
    }
  }
}

template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void sum_rows(const Operation& op, char* const* areas, u32 block,
                                         u32 blocks) {
  constexpr u32 VALUES = RETURN_FORMAT == RETURN_LOGFMT ? PIECE : PART;
  const LowLatencyParameters& p = op.p;
  u32 parts = ((u32)p.hidden + VALUES - 1) / VALUES;
  for (u32 unit = warp_id() * blocks + block; unit < p.tokens * parts; unit += blocks * WARPS) {
    u32 token = unit / parts;
    u32 first = (unit - token * parts) * VALUES;
    Sums<VALUES / 256> sums;
    sums.clear();
    constexpr bool ONE_A_HOLDER = RETURN_FORMAT == RETURN_PARTIAL || RETURN_FORMAT == RETURN_SUMMED;
    if constexpr (ONE_A_HOLDER && LL_PACKETS) {
      sum_packets<RETURN_FORMAT>(op, areas, sums, token, first);
    } else if constexpr (ONE_A_HOLDER) {
      sum_partials<RETURN_FORMAT>(op, areas, sums, token, first);
    } else {
      sum_choices<RETURN_FORMAT>(op, areas, sums, token, first);
    }
    sums.store(p.out + (u64)token * p.hidden * 2, first, (u32)p.hidden);
  }
}

template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void combine(const LowLatencyParameters& p) {
  extern __shared__ char* areas[];
  char** parts = areas + p.ranks;
  u32* batches = (u32*)(parts + p.ranks);
  await_previous_kernel();
  Operation op = operation_of(p);
  // Prefetches the first loads while this rank reads the state of its peers.
  for (u32 r = blockDim.x - 1 - threadIdx.x; r < p.ranks; r += blockDim.x) {
    batches[r] = p.batches[r];
  }
  ReturnItem item(op, first_unit(p));
  Choice choice(op, RETURN_FORMAT == RETURN_PARTIAL ? blockIdx.x * blockDim.x + threadIdx.x : ~0u);
  if (!begin(op, areas, parts)) {
    return;
  }
  if (p.phases & SENDING) {
    if (RETURN_FORMAT == RETURN_PARTIAL) {
      publish_weights(op, areas, choice);
    }
    if constexpr (PUTS) {
      publish_return_words<RETURN_FORMAT>(op, areas, batches);
    }
    if constexpr (INTERNODE) {
      import_return_weights<RETURN_FORMAT>(op, areas, batches);
    }
    return_rows<RETURN_FORMAT>(op, areas, batches, item);
  }
  if (p.phases & RECEIVING) {
    if constexpr (INTERNODE) {
      if (blockIdx.x == 0 && warp_id() == RELAY) {
        relay_rows(op, areas, [&](u32) { return (u32)p.tokens; });
      }
    }
    sum_rows<RETURN_FORMAT>(op, areas, blockIdx.x, gridDim.x);
  }
  if (!p.masking || !(p.phases & RECEIVING)) {
    finish(op, parts);
    return;
  }
  if (!is_last_block(op)) {
    return;
  }
  while (receive_again(op)) {
    resolve_peers_again(op, areas, parts);
    sum_rows<RETURN_FORMAT>(op, areas, 0, 1);
    __syncthreads();
  }
  if (warp_id() == 0) {
    end_operation(op, parts, p.control->ticket, p.control->operations);
  }
}

namespace ep4j::low_latency {

#define EP4J_LOW_LATENCY_COMBINE(name, RETURN_FORMAT)        \
  __global__ void __launch_bounds__(512, 1)                  \
      name(const __grid_constant__ LowLatencyParameters p) { \
    combine<RETURN_FORMAT>(p);                               \
  }

#if EP4J_RANK_MAJOR
EP4J_LOW_LATENCY_COMBINE(combine_summed, RETURN_SUMMED)
#else
EP4J_LOW_LATENCY_COMBINE(combine_bf16, RETURN_BF16)
EP4J_LOW_LATENCY_COMBINE(combine_logfmt, RETURN_LOGFMT)
EP4J_LOW_LATENCY_COMBINE(combine_partial, RETURN_PARTIAL)
#endif

}  // namespace ep4j::low_latency
