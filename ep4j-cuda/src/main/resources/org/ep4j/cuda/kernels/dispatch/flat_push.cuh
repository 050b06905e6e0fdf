// FLAT: the rows that a warp pushes, and their metadata.
#pragma once
#include "dispatch/layout.cuh"
#include "common/rows.cuh"
#include "dispatch/dispatch_parameters.cuh"

// Every `stride`-th token from `token` to `end`.
struct StridedTokens {
  u32 token;
  u32 end;
  u32 stride;

  // All lanes; false at the end, called no more.
  __device__ __forceinline__ bool next(u32& next) {
    next = token;
    token += stride;
    return next < end;
  }
};

// The tokens of a pushing warp: first tokens of its block's range, which it takes while other
// blocks may still resolve slots; then the next token of any range of this rank. Reason: when all
// SMs push at once, some are twice as fast as others.
struct ClaimedTokens {
  const DispatchParameters& p;
  const WaitContext& w;
  TokenRange token_range;
  u32 first;  // tokens of each range that only its block takes
  u32* own;   // in shared memory: number of them taken
  WorkCounter jobs;
  bool shares = false;

  __device__ __forceinline__ ClaimedTokens(const DispatchParameters& p, const WaitContext& w, TokenRange token_range,
                                         u32* own)
      : p(p),
        w(w),
        token_range(token_range),
        first((u32)p.push_warps * 2),
        own(own),
        jobs(&w.control->jobs) {}

  // All lanes; false at the end, called no more.
  __device__ __forceinline__ bool next(u32& token) {
    if (!shares) {
      u32 number = is_first_lane() ? atomicAdd(own, 1u) : 0;
      token = token_range.begin + __shfl_sync(0xffffffff, number, 0);
      if (token < min(token_range.begin + first, token_range.end)) {
        return true;
      }
      shares = true;
      // Lanes may see different values, and must take the same branch.
      if (!__all_sync(0xffffffff, wait_senders(w, gridDim.x))) {
        return false;
      }
    }
    // One token of each range, round robin; some ranges are one token longer than others.
    for (;;) {
      u32 job = jobs.next();
      u32 number = first + job / gridDim.x;
      TokenRange its = TokenRange::of(p.tokens, job % gridDim.x, gridDim.x);
      token = its.begin + number;
      if (token < its.end) {
        return true;
      }
      if (number > p.tokens / gridDim.x) {
        return false;
      }
    }
  }
};

// The tokens of a warp that have at least one route. Lane i holds the routes i and i + 32 of the
// token.
template <class Tokens, class Filter>
struct TokenRows {
  const DispatchParameters& p;
  Filter filter;
  Tokens tokens;
  u32 token = 0;
  u64 routes[ROUNDS] = {NO_ROUTE, NO_ROUTE};
  // The next token, prefetched so that its routes arrive in time.
  bool some;
  u32 ahead = 0;
  u64 routes_ahead[ROUNDS];

  __device__ __forceinline__ TokenRows(const DispatchParameters& p, Filter filter, Tokens tokens)
      : p(p), filter(filter), tokens(tokens) {
    prefetch();
  }

  // Bypasses the first-level cache: other blocks write routes too.
  __device__ __forceinline__ void prefetch() {
    some = tokens.next(ahead);
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      routes_ahead[round] =
          some && k < p.top_k ? __ldcg(&p.routes[(u64)ahead * p.top_k + k]) : NO_ROUTE;
    }
  }

  // All lanes; false at the end, called no more.
  __device__ __forceinline__ bool next() {
    while (some) {
      token = ahead;
      routes[0] = filter.select(routes_ahead[0]);
      routes[1] = filter.select(routes_ahead[1]);
      prefetch();
      if (__any_sync(0xffffffff, routes[0] != NO_ROUTE || routes[1] != NO_ROUTE)) {
        return true;
      }
    }
    return false;
  }

  __device__ __forceinline__ const char* row() const { return p.x + (u64)token * p.row_bytes; }

  __device__ __forceinline__ char* destination(u32 round) const {
    u64 to = routes[round];
    return to == NO_ROUTE
               ? nullptr
               : p.peers[route_rank(to)] + p.rows_offset + (u64)route_slot(to) * p.row_bytes;
  }
};

// The scales of a run of rows, in units of `Unit`.
template <class Unit>
__device__ __forceinline__ void write_scales(const DispatchParameters& p, const u32* list, char* to,
                                             u32 n, u32 thread, u32 threads) {
  u32 units = (u32)p.scale_bytes / sizeof(Unit);
  for_each_loaded(
      n * units, thread, threads,
      [&](u32 i) {
        u32 row = i / units;
        return ((const Unit*)(p.scales + (u64)list[row] * p.scale_bytes))[i - row * units];
      },
      [&](u32 i, Unit value) { ((Unit*)to)[i] = value; });
}

// Writes the metadata of a run of this rank's rows at rank `to`: numbers `first` to `first + n` of
// its list, from slot `slot` there. `threads` threads.
__device__ __forceinline__ void write_run_metadata(const DispatchParameters& p, u32 to, u32 first,
                                                 u32 slot, u32 n, u32 thread, u32 threads) {
  const u32* list = p.lists + (u64)to * p.tokens + first;
  char* region = p.peers[to];
  int* tokens = (int*)(region + p.tokens_offset) + slot;
  int* sources = (int*)(region + p.sources_offset) + slot;
  for_each_loaded(
      n, thread, threads, [&](u32 i) { return (int)list[i]; },
      [&](u32 i, int token) {
        tokens[i] = token;
        sources[i] = (int)p.rank;
      });
  if (p.factors != nullptr) {
    float* factors = (float*)(region + p.factors_offset) + slot;
    for_each_loaded(
        n, thread, threads, [&](u32 i) { return p.factors[list[i]]; },
        [&](u32 i, float factor) { factors[i] = factor; });
  }
  if (!p.cached) {
    i64* ids = (i64*)(region + p.ids_offset) + (u64)slot * p.top_k;
    float* weights = (float*)(region + p.weights_offset) + (u64)slot * p.top_k;
    u32 k_count = (u32)p.top_k;
    struct Choice {
      u32 owner;
      float weight;
    };
    for_each_loaded(
        n * k_count, thread, threads,
        [&](u32 i) {
          u32 row = i / k_count;
          u64 at = (u64)list[row] * k_count + (i - row * k_count);
          i64 id = expert_of(p, at);
          // An invalid id is treated as -1; the host reports it to the caller.
          return Choice{(u64)id < p.experts ? p.placement[id] : 0xffffffff,
                        p.weights != nullptr ? p.weights[at] : 0.0f};
        },
        [&](u32 i, Choice choice) {
          bool local = choice.owner >> 16 == to;
          ids[i] = local ? (i64)(choice.owner & 0xffff) : -1;
          if (p.weights != nullptr) {
            weights[i] = local ? choice.weight : 0.0f;
          }
        });
  }
  if (p.scales != nullptr) {
    char* scales = region + p.scales_offset + (u64)slot * p.scale_bytes;
    u64 all = (u64)scales | (u64)p.scales | p.scale_bytes;
    if ((all & 15) == 0) {
      write_scales<uint4>(p, list, scales, n, thread, threads);
    } else if ((all & 3) == 0) {
      write_scales<u32>(p, list, scales, n, thread, threads);
    } else {
      write_scales<u8>(p, list, scales, n, thread, threads);
    }
  }
}

// Marks the slots from the end of the received rows to the limit.
__device__ __forceinline__ void mark_unused(const DispatchParameters& p, u32 from, u32 thread,
                                            u32 threads) {
  char* region = p.peers[p.rank];
  for (u64 i = from + thread; i < p.limit; i += threads) {
    ((int*)(region + p.tokens_offset))[i] = -1;
    ((int*)(region + p.sources_offset))[i] = -1;
  }
  if (!p.cached) {
    for (u64 i = from * p.top_k + thread; i < p.limit * p.top_k; i += threads) {
      ((i64*)(region + p.ids_offset))[i] = -1;
    }
  }
}

// The warps of a block that do not move rows (from warp `moving` on): write the metadata of rows to
// the ranks from `first` to `end`.
__device__ __forceinline__ void write_metadata(const DispatchParameters& p, const RankSlots& slots, u32 first,
                                          u32 end, u32 moving) {
  // Teams of warps serve ranks side by side: with many ranks a run has few rows, and takes as long as their words
  // need to arrive.
  u32 warps = (blockDim.x >> 5) - moving;
  u32 teams = min(warps, end - first);
  u32 warp = warp_id() - moving;
  u32 team = warp % teams;
  u32 thread_of_team = warp / teams * 32 + lane_id();
  u32 threads_of_team = (warps - team + teams - 1) / teams * 32;
  for (u32 i = team; i < end - first; i += teams) {
    u32 to = first + ((u32)p.rank - first + 1 + blockIdx.x + i) % (end - first);
    u32 room = slots.limit[to] > slots.base[to] ? slots.limit[to] - slots.base[to] : 0;
    u32 rows = min(slots.rows[to], room);
    if (rows > 0) {
      write_run_metadata(p, to, slots.earlier[to], slots.base[to], rows, thread_of_team, threads_of_team);
    }
  }
  if (p.fixed_rows) {
    u32 threads = warps * 32;
    mark_unused(p, *slots.received, blockIdx.x * threads + threadIdx.x - moving * 32, gridDim.x * threads);
  }
}
