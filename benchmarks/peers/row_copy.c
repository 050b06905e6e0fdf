#include "row_copy.h"

#include <string.h>

void row_copy_cached(char* const* to, int n, const char* from, size_t bytes) {
  for (int i = 0; i < n; i++) memcpy(to[i], from, bytes);
}

#ifdef __AVX512F__
#include <immintrin.h>

enum {
  AHEAD = 1024, /* bytes prefetched ahead of the loads; none and 4096 are both slower */
  GROUP = 4,    /* destinations written at once, so that each vector is loaded once */
};

static inline __attribute__((always_inline)) void stream(char* const* to, int n, const char* from,
                                                         size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) {
    _mm_prefetch(from + at + AHEAD, _MM_HINT_T0);
    const __m512i value = _mm512_loadu_si512(from + at);
    for (int i = 0; i < n; i++) _mm512_stream_si512((void*)(to[i] + at), value);
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

void row_copy_fence(void) { _mm_sfence(); }

#else

void row_copy_stream(char* const* to, int n, const char* from, size_t bytes) {
  row_copy_cached(to, n, from, bytes);
}

void row_copy_fence(void) {}

#endif
