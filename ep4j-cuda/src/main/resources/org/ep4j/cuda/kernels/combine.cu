// High-throughput combine in one kernel: rows are pushed home and summed there.
//
// Each rank pushes the rows that it holds for others into the home region of their source, where
// those of holder h lie together in the order of its FLAT rows; row n of holder h belongs to the
// n-th token that this rank sent to h. After every four rows of a holder the pusher raises the group's word
// (see protocol.cuh). The warps of the same blocks that do not push, in the end those that have
// pushed too, take parts of the tokens in order, wait for the groups of their rows and add them in
// ascending rank order to the biases.
//
// EXPERT_MAJOR: the pusher first adds the rows of a token here, in ascending local expert order.
// They travel in the type of the rows (rounded) or as float32; sums for this rank go home, too.
//
// Before it pushes to a rank, a pusher waits for its `ready`: only then are the home rows of the
// combine before no longer read. Wide rows may be combined in several passes of columns.
#include "push_home.cuh"

// Rows of one token, at home or where the caller gave them, as lanes of a warp find them; shared
// memory, [64] a warp.
struct TokenHome {
  const char** rows;
  u64 ways[ROUNDS];  // of the token looked at: those of the choices i and i + 32

  // All lanes. Looks at a token ahead of time, so that `find` need not wait for its ways.
  __device__ __forceinline__ void look(const CombineParameters& p, u32 token) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      ways[round] = k < p.top_k && token < p.tokens ? p.ways[(u64)token * p.top_k + k] : NOWHERE;
    }
  }

  // All lanes. Waits for the rows; their number, or -1 if that is vain.
  __device__ __forceinline__ int find(const CombineParameters& p, const Watch& w,
                                      const Homes& homes, u32 element_bytes) const {
    const char* region = p.peers[p.rank];
    u32 found = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 way = ways[round];
      bool leads = way != NOWHERE;
      u32 mask = __ballot_sync(0xffffffff, leads);
      bool there = true;
      if (leads) {
        u32 holder = (u32)(way >> 32);
        const char* row = given_row(p, way, element_bytes);
        if (!is_given(p, way)) {
          u32 number = (u32)way - homes.own_first[holder];
          const u64* words = group_words(p, (u32)p.rank) + holder * p.group_words;
          there = wait_epoch(w, words + number / GROUP, PHASE_ROWS, holder);
          row = region + p.home_offset + (u64)(homes.own_home[holder] + number) * p.home_row_bytes;
        }
        rows[found + __popc(mask & ((1u << lane_id()) - 1))] = row;
      }
      if (!__all_sync(0xffffffff, there)) {
        return -1;
      }
      found += __popc(mask);
    }
    __syncwarp();
    return (int)found;
  }
};

// The columns of a token from `begin` to `end`.
template <class T, class H>
__device__ __forceinline__ void sum_columns(const CombineParameters& p, u32 token,
                                            const char* const* rows, int count, u32 begin,
                                            u32 end) {
  constexpr u32 E = T::ELEMENTS;
  constexpr u32 U = H::ELEMENTS == E ? 4 : 2;  // vectors of a lane at a time
  u64 row = ((u64)token * p.hidden + p.column) * (16 / E);
  for (u32 first = begin + lane_id() * E; first < end; first += 32 * E * U) {
    float sum[U][E] = {};
#pragma unroll
    for (u32 u = 0; u < U; u++) {
      u32 at = first + u * 32 * E;
      if (at < end && p.bias0 != nullptr) {
        add_vector<T>(sum[u], load_row(p.bias0 + row + at * (16 / E)));
        if (p.bias1 != nullptr) {
          add_vector<T>(sum[u], load_row(p.bias1 + row + at * (16 / E)));
        }
      }
    }
    add_rows<T, H, U, 2>(sum, MemoryRows{rows}, count, first, end);
#pragma unroll
    for (u32 u = 0; u < U; u++) {
      u32 at = first + u * 32 * E;
      if (at < end) {
        store_row(p.out + row + at * (16 / E), round_vector<T>(sum[u]));
      }
    }
  }
}

// In the order of ranks, as the rows.
__device__ __forceinline__ void sum_weights(const CombineParameters& p, u32 token,
                                            const char* const* rows, int count, u32 element_bytes) {
  for (u32 k = lane_id(); k < p.top_k; k += 32) {
    float sum = 0;
    for (int i = 0; i < count; i++) {
      sum += __ldcg(row_weights(p, rows[i], element_bytes) + k);
    }
    p.out_weights[(u64)token * p.top_k + k] = sum;
  }
}

template <class T, class H>
__device__ __forceinline__ void sum_tokens(const CombineParameters& p, const Watch& w,
                                           const Homes& homes, TokenHome home) {
  constexpr u32 E = T::ELEMENTS;
  u32 parts = (u32)p.parts;
  u32 columns = ((u32)p.columns + parts * E - 1) / (parts * E) * E;
  Taken taken(&w.control->jobs);
  u32 next = taken.next();
  home.look(p, next / parts);
  while (next < p.tokens * parts) {
    u32 token = next / parts;
    u32 begin = next % parts * columns;
    int count = home.find(p, w, homes, 16 / E);
    if (count < 0) {
      return;
    }
    next = taken.next();
    home.look(p, next / parts);
    sum_columns<T, H>(p, token, home.rows, count, begin, min(begin + columns, (u32)p.columns));
    if (p.weights != nullptr && p.column == 0 && begin == 0) {
      sum_weights(p, token, home.rows, count, 16 / E);
    }
    __syncwarp();
  }
}

template <class T, class H>
__device__ __forceinline__ void combine(const CombineParameters& p) {
  extern __shared__ __align__(128) char shared[];
  u64* barriers = (u64*)(shared + p.push_warps * STAGES * p.stage_bytes);
  const char** pointers = (const char**)(barriers + p.push_warps * STAGES);
  Homes homes((u32*)(pointers + 64 * (blockDim.x >> 5)), p.ranks);

  Control* control = (Control*)p.peers[p.rank];
  Watch w = watch_of(control, p.record, p.host_abort, p.timeout);
  if (leave_at_once(w, p.receipt)) {
    return;
  }
  if (blockIdx.x == 0 && threadIdx.x < p.ranks && p.peers[threadIdx.x] != nullptr) {
    store_release_system((u64*)(p.peers[threadIdx.x] + p.ready_offset) + p.rank, w.epoch);
  }
  homes.fill(p);
  u32 warp = warp_id();
  if (warp < p.push_warps) {
    Groups<Homes> groups(p, homes, w);
#if EP4J_TMA
    if (p.places == nullptr) {
      Ring ring(shared + warp * STAGES * p.stage_bytes, barriers + warp * STAGES,
                (u32)p.stage_bytes);
      push_rows(p, w, groups, ring, 16 / T::ELEMENTS);
    } else {
      push_sums<T, H>(p, w, groups, pointers + 64 * warp);
    }
#else
    push_sums<T, H>(p, w, groups, pointers + 64 * warp);
#endif
  }
  sum_tokens<T, H>(p, w, homes, TokenHome{pointers + 64 * warp, {}});
  if (last_block(control) && threadIdx.x == 0) {
    end_epoch(w, p.receipt);
  }
}

// Rows of the named type; the second type is that in which they travel.
#define EP4J_COMBINE(name, T, H)                                \
  extern "C" __global__ void __launch_bounds__(512, 1)          \
      name(const __grid_constant__ CombineParameters p) {       \
    combine<T, H>(p);                                           \
  }

EP4J_COMBINE(ep4j_combine_bf16, Bf16, Bf16)
EP4J_COMBINE(ep4j_combine_fp16, Fp16, Fp16)
EP4J_COMBINE(ep4j_combine_fp32, Fp32, Fp32)
EP4J_COMBINE(ep4j_combine_bf16_exact, Bf16, Fp32)
EP4J_COMBINE(ep4j_combine_fp16_exact, Fp16, Fp32)
