#include "workload.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"
#include "rng.h"

/* Four elements per output of the generator: random signs, magnitudes in [1/8, 2). */
static void fill_row(uint64_t state, bf16* row, int hidden) {
  for (int i = 0; i < hidden; i += 4) {
    const uint64_t bits =
        (rng_next(&state) & UINT64_C(0x81FF81FF81FF81FF)) | UINT64_C(0x3E003E003E003E00);
    memcpy(row + i, &bits, sizeof bits);
  }
}

void workload_token_row(const workload* w, int set, int source, int token, bf16* row) {
  const uint64_t seed = ~w->sets[set].routing.seed;
  fill_row(rng_token_state(seed, source, token), row, w->options.hidden);
}

void workload_expert_row(const workload* w, int set, int holder, int source, int token, bf16* row) {
  const uint64_t seed = ~w->sets[set].routing.seed ^ rng_mix(holder + 1);
  fill_row(rng_token_state(seed, source, token), row, w->options.hidden);
}

uint64_t workload_destinations(const workload* w, const int64_t* idx) {
  uint64_t ranks = 0;
  for (int k = 0; k < w->options.topk; k++) ranks |= UINT64_C(1) << (idx[k] / w->local_experts);
  return ranks;
}

/* Counts the rows that this rank receives; writes the answers to `rows` unless it is NULL. */
static int walk_received(const workload* w, int set, bf16* rows) {
  int64_t idx[MAX_TOPK];
  float weight[MAX_TOPK];
  int slot = 0;
  for (int source = 0; source < w->world.ranks; source++) {
    for (int token = 0; token < w->options.tokens; token++) {
      routing_token(&w->sets[set].routing, source, token, idx, weight);
      if ((workload_destinations(w, idx) >> w->world.rank & 1) == 0) continue;
      if (rows != NULL) {
        workload_expert_row(w, set, w->world.rank, source, token,
                            rows + (size_t)slot * w->options.hidden);
      }
      slot++;
    }
  }
  return slot;
}

void workload_expert_rows(const workload* w, int set, bf16* rows) { walk_received(w, set, rows); }

static void open_set(workload* w, int number) {
  const options* o = &w->options;
  input_set* set = &w->sets[number];
  if (!routing_open(&set->routing, o->routing, o->seed + number, o->experts, o->topk)) {
    fprintf(stderr, "cannot prepare the routing: memory is short\n");
    exit(1);
  }
  const size_t tokens = o->tokens;
  set->x = pages_alloc(tokens * workload_row_bytes(w));
  set->idx = pages_alloc(tokens * o->topk * sizeof *set->idx);
  set->weight = pages_alloc(tokens * o->topk * sizeof *set->weight);
  set->combined = pages_alloc(tokens * workload_row_bytes(w));
  for (int t = 0; t < o->tokens; t++) {
    const size_t at = (size_t)t * o->topk;
    routing_token(&set->routing, w->world.rank, t, set->idx + at, set->weight + at);
    workload_token_row(w, number, w->world.rank, t, set->x + (size_t)t * o->hidden);
  }
  set->recv_rows = walk_received(w, number, NULL);
}

void workload_open(workload* w, world world, const options* o) {
  *w = (workload){.world = world, .options = *o, .local_experts = o->experts / world.ranks};
  w->sets = calloc(o->buffers, sizeof *w->sets);
  if (w->sets == NULL) {
    fprintf(stderr, "cannot prepare %d input sets: memory is short\n", o->buffers);
    exit(1);
  }
  int max_rows = 0;
  double sum = 0;
  for (int b = 0; b < o->buffers; b++) {
    open_set(w, b);
    sum += w->sets[b].recv_rows;
    if (w->sets[b].recv_rows > max_rows) max_rows = w->sets[b].recv_rows;
  }
  double total;
  MPI_Allreduce(&max_rows, &w->max_recv_rows, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  w->mean_recv_rows = total / world.ranks / o->buffers;
}

void workload_close(workload* w) {
  const size_t tokens = w->options.tokens;
  for (int b = 0; b < w->options.buffers; b++) {
    input_set* set = &w->sets[b];
    pages_free(set->x, tokens * workload_row_bytes(w));
    pages_free(set->idx, tokens * w->options.topk * sizeof *set->idx);
    pages_free(set->weight, tokens * w->options.topk * sizeof *set->weight);
    pages_free(set->combined, tokens * workload_row_bytes(w));
    routing_close(&set->routing);
  }
  free(w->sets);
}
