// Predicts where each row of an epoch must arrive: kernels routes, count and row_table, one after
// the other.
//
// Tables of a rank, in its own memory. routes and holders, by (source rank, token): the choices,
// and the ranks that hold the token. sources, by row: index of the expected (source rank, token,
// choice), -1 for none. totals: numbers of rows.
#pragma once

#include "soak.cuh"

__device__ __forceinline__ u32 pairs(const Words& w) { return (u32)(w.ranks * w.max_tokens); }

__device__ __forceinline__ u32 holders_of(const Words& w, u64 route) {
  u32 holders = 0;
  for (u32 k = 0; k < w.top_k; k++) {
    int expert = expert_of(route, k);
    holders |= expert < 0 ? 0 : 1u << owner(w, expert);
  }
  return holders;
}

extern "C" __global__ void ep4j_soak_routes(const __grid_constant__ Words w) {
  u64* routes = (u64*)w.routes;
  u32* holders = (u32*)w.holders;
  for (u32 i = first_item(); i < pairs(w); i += item_stride()) {
    u32 rank = i / (u32)w.max_tokens;
    u32 token = i % (u32)w.max_tokens;
    routes[i] = token < tokens_of(w, rank) ? choices(w, rank, token) : 0;
    holders[i] = holders_of(w, routes[i]);
  }
  for (u32 i = first_item(); i < w.capacity; i += item_stride()) {
    ((int*)w.sources)[i] = -1;
  }
  for (u32 i = first_item(); i < TOTALS; i += item_stride()) {
    ((u32*)w.totals)[i] = 0;
  }
}

extern "C" __global__ void ep4j_soak_count(const __grid_constant__ Words w) {
  u32* totals = (u32*)w.totals;
  for (u32 i = first_item(); i < pairs(w); i += item_stride()) {
    u32 rank = i / (u32)w.max_tokens;
    u64 route = ((const u64*)w.routes)[i];
    for (u32 k = 0; k < w.top_k; k++) {
      int expert = expert_of(route, k);
      if (is_local(w, expert)) {
        atomicAdd(totals + (u32)expert % local_experts(w) * (u32)w.ranks + rank, 1u);
      }
    }
    if (((const u32*)w.holders)[i] >> w.rank & 1) {
      atomicAdd(totals + FROM + rank, 1u);
    }
  }
}

__device__ __forceinline__ u32 rows_of_expert(const Words& w, u32 local) {
  u32 rows = 0;
  for (u32 s = 0; s < w.ranks; s++) {
    rows += ((const u32*)w.totals)[local * (u32)w.ranks + s];
  }
  return rows;
}

__device__ __forceinline__ u32 aligned(const Words& w, u32 rows) {
  u32 unit = (u32)w.alignment;
  return (rows + unit - 1) / unit * unit;
}

// First row of the group of a local expert, or the end of the last group.
__device__ __forceinline__ u32 group_start(const Words& w, u32 local) {
  if (w.low_latency) {
    return local * pairs(w);
  }
  u32 start = 0;
  for (u32 l = 0; l < local; l++) {
    start += aligned(w, rows_of_expert(w, l));
  }
  return start;
}

__device__ __forceinline__ u32 first_row_from(const Words& w, u32 rank) {
  u32 row = 0;
  for (u32 s = 0; s < rank; s++) {
    row += ((const u32*)w.totals)[FROM + s];
  }
  return row;
}

__device__ __forceinline__ bool has_byte(u64 word, u32 byte) {
  u64 x = word ^ byte * 0x0101010101010101ull;
  return ((x - 0x0101010101010101ull) & ~x & 0x8080808080808080ull) != 0;
}

// The row of a choice of a local expert, after all earlier ones in (source rank, token) order.
__device__ inline u32 row_in_group(const Words& w, u32 pair, int expert) {
  const u64* routes = (const u64*)w.routes;
  u32 row = group_start(w, (u32)expert % local_experts(w));
  for (u32 i = 0; i < pair; i++) {
    row += has_byte(routes[i], (u32)expert + 1);
  }
  return row;
}

// The row of a token; in low latency each source rank has its own range of rows.
__device__ inline u32 flat_row(const Words& w, u32 pair) {
  const u32* holders = (const u32*)w.holders;
  u32 first = w.low_latency ? pair / (u32)w.max_tokens * (u32)w.max_tokens : 0;
  u32 row = first;
  for (u32 i = first; i < pair; i++) {
    row += holders[i] >> w.rank & 1;
  }
  return row;
}

extern "C" __global__ void ep4j_soak_row_table(const __grid_constant__ Words w) {
  u32 top_k = (u32)w.top_k;
  for (u32 i = first_item(); i < pairs(w) * top_k; i += item_stride()) {
    u32 row;
    if (w.by_expert) {
      int expert = expert_of(((const u64*)w.routes)[i / top_k], i % top_k);
      if (!is_local(w, expert)) {
        continue;
      }
      row = row_in_group(w, i / top_k, expert);
    } else {
      if (i % top_k != 0 || !(((const u32*)w.holders)[i / top_k] >> w.rank & 1)) {
        continue;
      }
      row = flat_row(w, i / top_k);
    }
    if (row < w.capacity) {
      ((int*)w.sources)[row] = (int)i;
    } else {
      wrong(w, NO_ROOM_TO_CHECK, row, 0, w.capacity, row);
    }
  }
  if (first_item() == 0) {
    u32 received = 0;
    for (u32 l = 0; l < local_experts(w); l++) {
      received += rows_of_expert(w, l);
    }
    u32 flat = first_row_from(w, (u32)w.ranks);
    u32* totals = (u32*)w.totals;
    totals[NEEDED] = w.by_expert     ? group_start(w, local_experts(w))
                     : w.low_latency ? pairs(w)
                                     : flat;
    totals[RECEIVED] = w.by_expert ? received : flat;
  }
}

// The expected source of a row.
struct Source {
  u32 rank;
  u32 token;
  u32 k;
};

__device__ __forceinline__ Source source(const Words& w, int from) {
  u32 pair = (u32)from / (u32)w.top_k;
  return {pair / (u32)w.max_tokens, pair % (u32)w.max_tokens, (u32)from % (u32)w.top_k};
}

// Number of the needed rows that a tensor of w.limit rows holds.
__device__ __forceinline__ u32 rows_here(const Words& w) {
  u32 needed = ((const u32*)w.totals)[NEEDED];
  return needed < w.limit ? needed : (u32)w.limit;
}
