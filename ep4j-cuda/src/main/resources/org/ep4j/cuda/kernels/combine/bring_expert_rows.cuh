// Combine of EXPERT_MAJOR rows, the first warp of a pipeline: finds rows and brings them into the
// ring. Rows of type T, returned rows of type H.
//
// It first takes groups of sums that other ranks await, then tokens of this rank, whose returned
// rows arrive meanwhile. Whatever a job needs to know is loaded while the rows of earlier jobs are
// brought.
#pragma once
#include "combine/expert_jobs.cuh"
#include "combine/push_notices.cuh"
#include "combine/token_sums.cuh"

#if EP4J_TMA

// The rows here of a FLAT row and their weights: those of the places i and i + 32 in lane i.
struct InputRows {
  static constexpr u32 NONE = ~0u;
  u32 rows[ROUNDS];
  float weights[ROUNDS];

  // `some`: there is such a FLAT row.
  __device__ __forceinline__ void prefetch(const CombineParameters& p, u64 flat, bool some) {
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 k = round * 32 + lane_id();
      bool here = some && k < p.top_k;
      rows[round] = here ? (u32)p.slot_rows[flat * p.top_k + k] : NONE;
      if (APPLIES_WEIGHTS) {
        weights[round] = here ? p.slot_weights[flat * p.top_k + k] : 0;
      }
    }
  }

  // Lists the rows in ascending local expert order; returns their number.
  __device__ __forceinline__ u32 list(const CombineParameters& p, const ExpertRing& ring,
                                      u32 element_bytes) const {
    u32 found = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u32 mask = __ballot_sync(0xffffffff, rows[round] != NONE);
      if (rows[round] != NONE) {
        u32 at = found + __popc(mask & ((1u << lane_id()) - 1));
        ring.list[at] = input_row(p, rows[round], element_bytes);
        if (APPLIES_WEIGHTS) {
          ring.weights[at] = weights[round];
        }
      }
      found += __popc(mask);
    }
    return found;
  }
};

// All lanes call the functions together; only the first lane moves.
template <class T, class H>
struct ExpertRowBringer {
  static constexpr u32 ROW_ELEMENT = 16 / T::ELEMENTS;
  static constexpr u32 RETURNED_ELEMENT = 16 / H::ELEMENTS;

  // Tokens that are taken at a time: their words are awaited together.
  static constexpr u32 TOKENS = 2;

  const CombineParameters& p;
  const WaitContext& w;
  const ReturnLayout& return_layout;
  const ExpertRing& ring;
  RingPosition position;

  // Brings the listed rows. `job` is that of column 0 without columns.
  __device__ __forceinline__ void bring(ExpertJob job) {
    __syncwarp();
    u32 columns = (u32)p.columns;
    u32 longest = ring.slot_bytes / RETURNED_ELEMENT;
    u32 element = job.pushed ? RETURNED_ELEMENT : ROW_ELEMENT;
    bool ends_group = job.ends_group;
    for (u32 at = 0; is_first_lane() && at < columns; at += longest) {
      u32 piece = min(longest, columns - at);
      job.columns = (u16)piece;
      job.ends_group = ends_group && at + piece == columns;
      position.await_empty(ring);
      ring.jobs[position.slot] = job;
      u32 rows = job.rows();
      if (rows == 0) {
        position.pass(ring);
      }
      for (u32 i = 0; i < rows; i++) {
        if (i > 0) {
          position.await_empty(ring);
        }
        if (APPLIES_WEIGHTS) {
          ring.jobs[position.slot].weight = ring.weights[i];
        }
        u32 bytes = job.is_returned(i) ? RETURNED_ELEMENT : ROW_ELEMENT;
        position.load(ring, ring.list[i] + at * bytes, piece * bytes);
      }
      job.to += piece * element;
    }
    __syncwarp();
  }

  // Brings the rows of all groups of sums that this pipeline pushes.
  __device__ __forceinline__ void bring_pushed(PushNotices& notices) {
    RowGroups<ReturnLayout> groups(p, return_layout, w);
    u32 named = 0;
    InputRows next;
    bool some = groups.next();
    next.prefetch(p, some ? groups.first_row() : 0, some);
    while (some) {
      u32 first = groups.first_row();
      u32 count = groups.rows();
      char* to = p.peers[groups.target()] + p.return_offset + groups.return_row() * p.return_row_bytes;
      notices.name(named++, groups.word());
      if (p.weights != nullptr && p.column == 0) {
        push_weights(p, groups);
      }
      for (u32 i = 0; i < count; i++) {
        InputRows rows = next;
        bool last = i + 1 == count;
        some = last ? groups.next() : true;
        next.prefetch(p, last ? groups.first_row() : first + i + 1, some);
        u32 own = rows.list(p, ring, ROW_ELEMENT);
        bring(ExpertJob{to, 0, 0, (u8)own, 0, 0, 0, true, last});
        to += p.return_row_bytes;
      }
    }
    if (is_first_lane()) {
      notices.groups = named;
    }
  }

  // The FLAT row of a token's rows of own experts; `some`: there are such rows.
  __device__ __forceinline__ u32 own_row(const TokenRoutes& of, bool& some) const {
    u32 flat = 0;
    some = false;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      bool own = of.routes[round] != NO_ROUTE && is_local_input(p, of.routes[round]);
      u32 mask = __ballot_sync(0xffffffff, own);
      if (mask != 0) {
        flat = __shfl_sync(0xffffffff, (u32)of.routes[round], __ffs(mask) - 1);
        some = true;
      }
    }
    return flat;
  }

  // Waits for the returned rows of the tokens, each lane for some; false on abort.
  __device__ __forceinline__ bool await_rows(const TokenRoutes* tokens) const {
    constexpr u32 LANES_OF_TOKEN = 32 / TOKENS;
    u32 mine = lane_id() / LANES_OF_TOKEN;
    bool there = true;
#pragma unroll
    for (u32 first = 0; first < 32 * ROUNDS; first += LANES_OF_TOKEN) {
      if (first < p.top_k) {
        u64 route = NO_ROUTE;
#pragma unroll
        for (u32 i = 0; i < TOKENS; i++) {
          u64 its = __shfl_sync(0xffffffff, tokens[i].routes[first / 32],
                                first % 32 + lane_id() % LANES_OF_TOKEN);
          route = i == mine ? its : route;
        }
        if (route != NO_ROUTE && !is_local_input(p, route)) {
          there = await_return_row(p, w, return_layout, route, is_sum_witness() && mine == 0) != nullptr && there;
        }
      }
    }
    // Peers have written the rows with ordinary stores; bulk loads read them.
    bool all = __all_sync(0xffffffff, there);
    fence_proxy();
    return all;
  }

  __device__ __forceinline__ void bring_token(u32 token, const TokenRoutes& of, const InputRows& own_rows) {
    ExpertJob job{};
    u64 row = ((u64)token * p.hidden + p.column) * ROW_ELEMENT;
    job.to = p.out + row;
    job.own = (u8)own_rows.list(p, ring, ROW_ELEMENT);
    const char** list = ring.list + job.own;
    if (p.bias0 != nullptr) {
      list[job.biases++] = p.bias0 + row;
      if (p.bias1 != nullptr) {
        list[job.biases++] = p.bias1 + row;
      }
    }
    u32 found = 0;
    u32 before = 0;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
      u64 route = of.routes[round];
      bool valid = route != NO_ROUTE;
      bool returned = valid && !is_local_input(p, route);
      u32 mask = __ballot_sync(0xffffffff, returned);
      u32 own_mask = __ballot_sync(0xffffffff, valid) & ~mask;
      u32 at = found + __popc(mask & ((1u << lane_id()) - 1));
      if (own_mask != 0) {
        before = __shfl_sync(0xffffffff, at, __ffs(own_mask) - 1);
      }
      if (returned) {
        list[job.biases + at] = return_row(p, return_layout, route);
      }
      found += __popc(mask);
    }
    job.before = (u8)before;
    job.after = (u8)(found - before);
    bring(job);
  }

  // Brings the rows of this rank's tokens; ends early on abort.
  __device__ __forceinline__ void bring_tokens() {
    WorkCounter taken(&w.control->jobs);
    TokenRoutes present[TOKENS], next[TOKENS];
    InputRows present_rows[TOKENS], next_rows[TOKENS];
    auto prefetch = [&](TokenRoutes* routes, u32 first) {
#pragma unroll
      for (u32 i = 0; i < TOKENS; i++) {
        routes[i].prefetch(p, first + i);
      }
    };
    auto prefetch_rows = [&](InputRows* rows, const TokenRoutes* routes) {
#pragma unroll
      for (u32 i = 0; i < TOKENS; i++) {
        bool some;
        u32 flat = own_row(routes[i], some);
        rows[i].prefetch(p, flat, some);
      }
    };
    u32 first = taken.next() * TOKENS;
    u32 second = taken.next() * TOKENS;
    prefetch(present, first);
    prefetch(next, second);
    prefetch_rows(present_rows, present);
    while (first < p.tokens) {
      prefetch_rows(next_rows, next);
      if (!await_rows(present)) {
        return;
      }
      u32 third = taken.next() * TOKENS;
#pragma unroll
      for (u32 i = 0; i < TOKENS; i++) {
        TokenRoutes routes = present[i];
        present[i] = next[i];
        next[i].prefetch(p, third + i);
        if (first + i < p.tokens) {
          bring_token(first + i, routes, present_rows[i]);
        }
        present_rows[i] = next_rows[i];
      }
      first = second;
      second = third;
    }
  }

  __device__ __forceinline__ void run(PushNotices& notices) {
    // Rows were written by other kernels.
    fence_proxy();
    bring_pushed(notices);
    bring_tokens();
    if (is_first_lane()) {
      position.await_empty(ring);
      ring.jobs[position.slot] = ExpertJob{};
      position.pass(ring);
    }
  }
};

#endif
