// Creates the inputs of an epoch of the soak test, predicts where each row must arrive, and checks
// the results; see soak.cuh. Order in one stream: make, routes, count, row_table; a dispatch;
// check_rows and check_index (low latency: check_latency_index); answer; a combine; check_sums.
//
// Roles: every kernel is a grid-stride loop over independent elements. Budget: any launch, no
// shared memory, no barrier. Invariant: inputs and predictions are functions of (seed, epoch, rank,
// token, position) and share no code with the kernels under test.
#include "soak_row_table.cuh"
#include "soak_rows.cuh"
#include "soak_sums.cuh"

extern "C" __global__ void ep4j_soak_make(const __grid_constant__ Words w) {
  u32 rank = (u32)w.rank;
  u32 tokens = tokens_of(w, rank);
  u32 row_words = (u32)w.sent_words;
  u32* x = (u32*)w.x;
  for (u32 i = first_item(); i < tokens * row_words; i += item_stride()) {
    x[i] = sent_word(w, rank, i / row_words, i % row_words);
  }
  if (w.scales) {
    u32* scales = (u32*)w.scales;
    u32 columns = (u32)w.scale_words;
    for (u32 i = first_item(); i < tokens * columns; i += item_stride()) {
      scales[i] = scale_word(w, rank, i / columns, i % columns);
    }
  }
  if (w.bias) {
    u32* bias = (u32*)w.bias;
    u32 words = (u32)w.hidden / 2;
    for (u32 i = first_item(); i < tokens * words; i += item_stride()) {
      u32 bits = bias_bits(w, rank, i / words, i % words);
      bias[i] = pair(small(bits, BIAS_SPREAD), small(bits >> 16, BIAS_SPREAD));
    }
  }
  for (u32 t = first_item(); t < tokens; t += item_stride()) {
    u64 route = choices(w, rank, t);
    for (u32 k = 0; k < w.top_k; k++) {
      u32 i = t * (u32)w.top_k + k;
      if (w.wide_ids) {
        ((i64*)w.ids)[i] = expert_of(route, k);
      } else {
        ((int*)w.ids)[i] = expert_of(route, k);
      }
      ((float*)w.weights)[i] = weight(w, rank, t, k);
    }
  }
}

// Corrupts a byte, for the tests of the checks.
extern "C" __global__ void ep4j_soak_flip(const __grid_constant__ Words w) {
  if (first_item() == 0) {
    *(u8*)w.victim ^= 1;
  }
}
