#include "routing.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"

static const char* const NAMES[] = {"uniform", "zipf", "hot"};

const char* routing_name(routing_kind kind) { return NAMES[kind]; }

bool routing_parse(const char* name, routing_kind* kind) {
  for (int i = 0; i < 3; i++) {
    if (strcmp(name, NAMES[i]) == 0) {
      *kind = (routing_kind)i;
      return true;
    }
  }
  return false;
}

/* Integer weights 2^24 / (index + 1): no floating point, so every language gets the same table. */
static bool open_zipf(routing* r) {
  r->expert = malloc(r->experts * sizeof *r->expert);
  r->bound = malloc(r->experts * sizeof *r->bound);
  if (r->expert == NULL || r->bound == NULL) return false;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < r->experts; i++) {
    r->expert[i] = i;
    sum += (UINT32_C(1) << 24) / (i + 1);
    r->bound[i] = sum;
  }
  uint64_t state = r->seed;
  for (uint32_t i = r->experts - 1; i > 0; i--) {
    uint32_t j = rng_below(&state, i + 1);
    uint32_t swap = r->expert[i];
    r->expert[i] = r->expert[j];
    r->expert[j] = swap;
  }
  return true;
}

bool routing_open(routing* r, routing_kind kind, uint64_t seed, uint32_t experts, uint32_t topk) {
  *r = (routing){.kind = kind, .seed = seed, .experts = experts, .topk = topk};
  if (topk < 1 || topk > experts) return false;
  r->hot = experts / 8 > topk ? experts / 8 : topk;
  if (kind == ROUTING_ZIPF && !open_zipf(r)) {
    routing_close(r);
    return false;
  }
  return true;
}

void routing_close(routing* r) {
  free(r->expert);
  free(r->bound);
  r->expert = NULL;
  r->bound = NULL;
}

static uint32_t draw_zipf(const routing* r, uint64_t* state) {
  uint32_t u = rng_below(state, r->bound[r->experts - 1]);
  uint32_t low = 0;
  uint32_t high = r->experts - 1;
  while (low < high) { /* the first index with bound > u */
    uint32_t middle = (low + high) / 2;
    if (r->bound[middle] > u) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return r->expert[low];
}

static uint32_t draw(const routing* r, uint64_t* state) {
  switch (r->kind) {
    case ROUTING_ZIPF:
      return draw_zipf(r, state);
    case ROUTING_HOT:
      return rng_below(state, rng_below(state, 4) != 3 ? r->hot : r->experts);
    default:
      return rng_below(state, r->experts);
  }
}

static bool contains(const int64_t* idx, uint32_t n, int64_t expert) {
  for (uint32_t i = 0; i < n; i++) {
    if (idx[i] == expert) return true;
  }
  return false;
}

void routing_token(const routing* r, uint32_t rank, uint32_t token, int64_t* idx, float* weight) {
  uint64_t state = rng_token_state(r->seed, rank, token);
  for (uint32_t k = 0; k < r->topk;) {
    int64_t expert = draw(r, &state);
    if (!contains(idx, k, expert)) idx[k++] = expert;
  }
  for (uint32_t k = 0; k < r->topk; k++) {
    weight[k] = (float)((rng_next(&state) >> 40) + 1) * 0x1p-24f;
  }
}
