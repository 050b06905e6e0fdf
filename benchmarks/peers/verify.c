#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool owns(const workload* w, int rank, int64_t expert) {
  return expert >= (int64_t)rank * w->local_experts &&
         expert < (int64_t)(rank + 1) * w->local_experts;
}

static bool reaches(const workload* w, int rank, const int64_t* idx) {
  for (int k = 0; k < w->options.topk; k++) {
    if (owns(w, rank, idx[k])) return true;
  }
  return false;
}

static bool verify_slot(const workload* w, int set, int source, int token, int slot,
                        const int64_t* idx, const float* weight, const received* r, bf16* row) {
  const int me = w->world.rank, topk = w->options.topk, hidden = w->options.hidden;
  workload_token_row(w, set, source, token, row);
  for (int i = 0; i < hidden; i++) {
    const bf16 seen = r->rows[(size_t)slot * hidden + i];
    if (seen == row[i]) continue;
    fprintf(stderr,
            "rank %d: dispatch of set %d: slot %d (rank %d, token %d), element %d: %04x, expected "
            "%04x\n",
            me, set, slot, source, token, i, seen, row[i]);
    return false;
  }
  for (int k = 0; k < topk; k++) {
    const bool local = owns(w, me, idx[k]);
    const int64_t expert = local ? idx[k] - (int64_t)me * w->local_experts : -1;
    const float share = local ? weight[k] : 0;
    const size_t at = (size_t)slot * topk + k;
    if (r->idx[at] == expert && r->weight[at] == share) continue;
    fprintf(stderr,
            "rank %d: dispatch of set %d: slot %d (rank %d, token %d), k %d: expert %ld weight %g, "
            "expected %ld %g\n",
            me, set, slot, source, token, k, (long)r->idx[at], r->weight[at], (long)expert, share);
    return false;
  }
  return true;
}

static bool verify_slots(const workload* w, int set, const received* r, bf16* row) {
  int64_t idx[MAX_TOPK];
  float weight[MAX_TOPK];
  int slot = 0;
  for (int source = 0; source < w->world.ranks; source++) {
    for (int token = 0; token < w->options.tokens; token++) {
      routing_token(&w->sets[set].routing, source, token, idx, weight);
      if (!reaches(w, w->world.rank, idx)) continue;
      if (slot < r->count && !verify_slot(w, set, source, token, slot, idx, weight, r, row))
        return false;
      slot++;
    }
  }
  if (slot == r->count) return true;
  fprintf(stderr, "rank %d: dispatch of set %d: %d rows, expected %d\n", w->world.rank, set,
          r->count, slot);
  return false;
}

static float widen(bf16 value) {
  const uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

/* Nearest even by cases, for finite values: deliberately different from the kernel's method. */
static bf16 rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t below = bits & 0xFFFF, kept = bits >> 16;
  if (below < 0x8000) return (bf16)kept;
  if (below > 0x8000) return (bf16)(kept + 1);
  return (bf16)(kept % 2 == 0 ? kept : kept + 1);
}

static bool verify_sums(const workload* w, int set, bf16* row, float* sum) {
  const input_set* in = &w->sets[set];
  const int me = w->world.rank, hidden = w->options.hidden;
  int64_t idx[MAX_TOPK];
  float weight[MAX_TOPK];
  for (int token = 0; token < w->options.tokens; token++) {
    routing_token(&in->routing, me, token, idx, weight);
    memset(sum, 0, hidden * sizeof *sum);
    for (int holder = 0; holder < w->world.ranks; holder++) {
      if (!reaches(w, holder, idx)) continue;
      workload_expert_row(w, set, holder, me, token, row);
      for (int i = 0; i < hidden; i++) sum[i] += widen(row[i]);
    }
    for (int i = 0; i < hidden; i++) {
      const bf16 seen = in->combined[(size_t)token * hidden + i], expected = rounded(sum[i]);
      if (seen == expected) continue;
      fprintf(stderr, "rank %d: combine of set %d: token %d, element %d: %04x, expected %04x\n", me,
              set, token, i, seen, expected);
      return false;
    }
  }
  return true;
}

bool verify_dispatch(const workload* w, int set, const received* r) {
  bf16* row = malloc(workload_row_bytes(w));
  const bool right = row != NULL && verify_slots(w, set, r, row);
  free(row);
  return right;
}

bool verify_combine(const workload* w, int set) {
  bf16* row = malloc(workload_row_bytes(w));
  float* sum = malloc(w->options.hidden * sizeof *sum);
  const bool right = row != NULL && sum != NULL && verify_sums(w, set, row, sum);
  free(row);
  free(sum);
  return right;
}
