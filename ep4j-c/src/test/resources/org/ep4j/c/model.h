/*
 * What the conformance program sends, and what must arrive: every rank knows the rows and choices of
 * all ranks. Values are small integers and weights are powers of two, so sums are exact in BF16.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>
#include <string.h>

enum { HIDDEN = 512, TOP_K = 3, EXPERTS = 8, MAX_TOKENS = 8, MAX_RANKS = 4 };

/* Ranks have different numbers of tokens; the last of several has none. */
static inline int tokens_of(int rank, int ranks) {
  return ranks > 1 && rank == ranks - 1 ? 0 : 5 + rank % 3;
}

static inline int value_of(int rank, int token, int column) {
  return (rank * 31 + token * 7 + column) % 16 - 8;
}

/* The choice in a slot, -1 for some; distinct within a token. */
static inline int64_t expert_of(int rank, int token, int slot) {
  int first = (rank * 5 + token * 3) % EXPERTS;
  return slot == 2 && token % 4 == 1 ? -1 : (first + slot * 3) % EXPERTS;
}

static inline float weight_of(int token, int slot) {
  return 1.0f / (float)(1 << (token + slot) % 3);
}

static inline int owner_of(int64_t expert, int ranks) {
  return (int)expert / (EXPERTS / ranks);
}

/* Whether a token has a choice on a rank. */
static inline int goes_to(int source, int token, int target, int ranks) {
  int slot;
  for (slot = 0; slot < TOP_K; slot++) {
    int64_t expert = expert_of(source, token, slot);
    if (expert >= 0 && owner_of(expert, ranks) == target) {
      return 1;
    }
  }
  return 0;
}

static inline uint16_t bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static inline float float_of(uint16_t bf16) {
  uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#endif
