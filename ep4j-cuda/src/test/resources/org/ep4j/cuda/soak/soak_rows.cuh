// Checks that rows and their metadata have arrived where they must.
#pragma once

#include "soak_row_table.cuh"

extern "C" __global__ void ep4j_soak_check_rows(const __grid_constant__ Words w) {
  u32 words = (u32)w.row_words;
  u32* rows = (u32*)w.rows;
  u32 count = rows_here(w);
  for (u32 i = first_item(); i < count * words; i += item_stride()) {
    u32 row = i / words;
    u32 word = i % words;
    int from = ((const int*)w.sources)[row];
    if (from >= 0) {
      Source s = source(w, from);
      check(w, ROWS, row, 4 * word, received_word(w, s.rank, s.token, word), rows + i);
      if (word == 0) {
        atomicAdd((u64*)w.report + CHECKED, 1ull);
      }
    } else if (w.zero_padding) {
      check(w, PADDING, row, 4 * word, 0u, rows + i);
    }
  }
}

__device__ inline void check_scales(const Words& w, u32 row, int from) {
  if (!w.row_scales || from < 0) {
    return;
  }
  Source s = source(w, from);
  u32 group = (u32)w.scale_group_rows;
  u32* scales = (u32*)w.row_scales + row / group * w.scale_group_stride;
  for (u32 c = 0; c < w.scale_words; c++) {
    check(w, SCALES, row, 4 * c, scale_word(w, s.rank, s.token, c),
          scales + row % group * w.scale_row_stride + c * w.scale_column_stride);
  }
}

// Checks ids and weights of a row.
__device__ inline void check_routing(const Words& w, u32 row, int from) {
  if (w.by_expert) {
    if (w.row_weights && row < rows_here(w)) {
      Source s = from < 0 ? Source{} : source(w, from);
      float expected = from < 0 ? 0 : weight(w, s.rank, s.token, s.k);
      check(w, WEIGHTS, row, 0, float_bits(expected), (u32*)w.row_weights + row);
    }
    return;
  }
  Source s = from < 0 ? Source{} : source(w, from);
  u64 route = from < 0 ? 0 : ((const u64*)w.routes)[(u32)from / (u32)w.top_k];
  for (u32 k = 0; k < w.top_k; k++) {
    int expert = expert_of(route, k);
    bool here = is_local(w, expert);
    u32 i = row * (u32)w.top_k + k;
    // In low latency, rows without a token are undefined.
    if (w.row_ids && (from >= 0 || !w.low_latency)) {
      i64 expected = here ? (i64)((u32)expert % local_experts(w)) : -1;
      check(w, IDS, row, 8 * k, expected, (i64*)w.row_ids + i);
    }
    if (w.row_weights && from >= 0) {
      float expected = here ? weight(w, s.rank, s.token, k) : 0;
      check(w, WEIGHTS, row, 4 * k, float_bits(expected), (u32*)w.row_weights + i);
    }
  }
}

__device__ inline void check_counts(const Words& w) {
  u32 local = local_experts(w);
  for (u32 l = 0; l < local; l++) {
    int rows = (int)rows_of_expert(w, l);
    check(w, RECEIVED_PER_EXPERT, l, 0, rows, (int*)w.received_per_expert + l);
    check(w, TOKENS_PER_EXPERT, l, 0, (int)aligned(w, (u32)rows), (int*)w.tokens_per_expert + l);
  }
  if (w.by_expert) {
    for (u32 l = 0; l <= local; l++) {
      check(w, EXPERT_OFFSETS, l, 0, (i64)group_start(w, l), (i64*)w.expert_offsets + l);
    }
  } else {
    for (u32 s = 0; s <= w.ranks; s++) {
      check(w, RANK_OFFSETS, s, 0, (i64)first_row_from(w, s), (i64*)w.rank_offsets + s);
    }
  }
  const u32* totals = (const u32*)w.totals;
  if (w.host_received != totals[RECEIVED]) {
    wrong(w, RECEIVED_ROWS, 0, 0, totals[RECEIVED], w.host_received);
  }
}

extern "C" __global__ void ep4j_soak_check_index(const __grid_constant__ Words w) {
  for (u32 row = first_item(); row < w.limit; row += item_stride()) {
    int from = ((const int*)w.sources)[row];
    Source s = from < 0 ? Source{} : source(w, from);
    check(w, SOURCE_TOKENS, row, 0, from < 0 ? -1 : (int)s.token, (int*)w.source_tokens + row);
    check(w, SOURCE_RANKS, row, 0, from < 0 ? -1 : (int)s.rank, (int*)w.source_ranks + row);
    check_scales(w, row, from);
    check_routing(w, row, from);
  }
  if (first_item() == 0) {
    u32 needed = ((const u32*)w.totals)[NEEDED];
    if (w.exact ? w.limit != needed : w.limit < needed) {
      wrong(w, NUMBER_OF_ROWS, 0, 0, needed, w.limit);
    }
    if (w.received_per_expert) {
      check_counts(w);
    }
  }
}

// Checks a word of the ranges: number of rows and first row; without rows the latter is undefined.
__device__ __forceinline__ void check_range(const Words& w, u32 row, u32 column, u32 rows,
                                            u32 first) {
  u32* range = (u32*)w.ranges + 2 * (row * (w.by_expert ? (u32)w.ranks : 1) + column);
  check(w, RANGES, row, 8 * column, rows, range);
  if (rows > 0) {
    check(w, RANGES, row, 8 * column + 4, first, range + 1);
  }
}

extern "C" __global__ void ep4j_soak_check_latency_index(const __grid_constant__ Words w) {
  for (u32 row = first_item(); row < w.limit; row += item_stride()) {
    int from = ((const int*)w.sources)[row];
    if (from >= 0) {
      check(w, SOURCE_TOKENS, row, 0, (int)source(w, from).token, (int*)w.source_tokens + row);
    }
    check_scales(w, row, from);
    if (!w.by_expert) {
      check_routing(w, row, from);
    }
  }
  if (first_item() != 0) {
    return;
  }
  int* received = (int*)w.received_per_expert;
  const u32* totals = (const u32*)w.totals;
  if (!w.by_expert) {
    for (u32 s = 0; s < w.ranks; s++) {
      check(w, RECEIVED_PER_EXPERT, s, 0, (int)totals[FROM + s], received + s);
      check_range(w, s, 0, totals[FROM + s], s * (u32)w.max_tokens);
    }
    return;
  }
  for (u32 l = 0; l < local_experts(w); l++) {
    check(w, RECEIVED_PER_EXPERT, l, 0, (int)rows_of_expert(w, l), received + l);
    u32 first = 0;
    for (u32 s = 0; s < w.ranks; s++) {
      u32 rows = totals[l * (u32)w.ranks + s];
      check_range(w, l, s, rows, first);
      first += rows;
    }
  }
}
