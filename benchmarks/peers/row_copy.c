#include "row_copy.h"

#include <string.h>

#include "cache_line.h"

void row_copy_cached(char* const* to, int n, const char* from, size_t bytes) {
  for (int i = 0; i < n; i++) memcpy(to[i], from, bytes);
}

enum {
  AHEAD = 1024, /* bytes prefetched ahead of the loads; none and 4096 are both slower */
  GROUP = 4,    /* destinations written at once, so that each line is loaded once */
};

static inline __attribute__((always_inline)) void stream(char* const* to, int n, const char* from,
                                                         size_t bytes) {
  for (size_t at = 0; at < bytes; at += LINE) {
    __builtin_prefetch(from + at + AHEAD);
    words line[PARTS];
    for (int p = 0; p < PARTS; p++) line[p] = vector_load(from + at + p * VECTOR);
    for (int i = 0; i < n; i++) line_stream(to[i] + at, line);
  }
}

void row_copy_stream(char* const* to, int n, const char* from, size_t bytes) {
  for (; n > GROUP; n -= GROUP, to += GROUP) stream(to, GROUP, from, bytes);
  switch (n) { /* constants, so that the destinations stay in registers */
    case 1:
      stream(to, 1, from, bytes);
      break;
    case 2:
      stream(to, 2, from, bytes);
      break;
    case 3:
      stream(to, 3, from, bytes);
      break;
    case 4:
      stream(to, 4, from, bytes);
      break;
    default:
      break;
  }
}

void row_copy_fence(void) { line_fence(); }
