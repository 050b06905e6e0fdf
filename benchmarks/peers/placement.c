#include "placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* checked(void* memory) {
  if (memory == NULL) {
    fprintf(stderr, "cannot hold the layout: memory is short\n");
    exit(1);
  }
  return memory;
}

void expert_owners_open(expert_owners* owners, const workload* w) {
  owners->rank = checked(malloc(w->options.experts));
  for (int e = 0; e < w->options.experts; e++) owners->rank[e] = (uint8_t)(e / w->local_experts);
}

void expert_owners_close(expert_owners* owners) { free(owners->rank); }

void placement_open(placement* p, const workload* w) {
  p->ranks = checked(calloc(w->options.tokens + 1, sizeof *p->ranks));
}

void placement_close(placement* p) { free(p->ranks); }

void placement_compute(placement* p, const workload* w, const expert_owners* owners, int set) {
  const int topk = w->options.topk;
  const int64_t* idx = w->sets[set].idx;
  int rows[MAX_RANKS] = {0};
  for (int t = 0; t < w->options.tokens; t++, idx += topk) {
    uint64_t ranks = 0;
    for (int k = 0; k < topk; k++) ranks |= UINT64_C(1) << owners->rank[idx[k]];
    p->ranks[t] = ranks;
    for (; ranks != 0; ranks &= ranks - 1) rows[__builtin_ctzll(ranks)]++;
  }
  memcpy(p->send_rows, rows, sizeof rows);
}

void placement_sum(const placement* p, const workload* w, int set, const bf16* const* parts) {
  const size_t hidden = w->options.hidden;
  const bf16* next[MAX_RANKS];
  const bf16* rows[MAX_RANKS];
  memcpy(next, parts, w->world.ranks * sizeof *next);
  bf16* out = w->sets[set].combined;
  for (int t = 0; t < w->options.tokens; t++, out += hidden) {
    int n = 0;
    for (uint64_t ranks = p->ranks[t]; ranks != 0; ranks &= ranks - 1) {
      const int holder = __builtin_ctzll(ranks);
      rows[n++] = next[holder];
      next[holder] += hidden;
    }
    bf16_sum_stream(rows, n, out, hidden);
  }
  bf16_sum_fence();
}
