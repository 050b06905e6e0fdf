#include "bf16_sum.h"

#include <stdbool.h>
#include <string.h>

#include "cache_line.h"

static float widen(bf16 value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static bf16 round_nearest_even(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (bf16)(bits >> 16 | 0x40);
  return (bf16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

bf16 bf16_sum_element(const bf16* const* rows, int n, size_t index) {
  float sum = 0;
  for (int r = 0; r < n; r++) sum += widen(rows[r][index]);
  return round_nearest_even(sum);
}

static void sum_scalar(const bf16* const* rows, int n, bf16* out, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) out[i] = bf16_sum_element(rows, n, i);
}

enum {
  ELEMENTS = LINE / sizeof(bf16), /* of one cache line */
  /* Lines to prefetch (1 KiB): a sixth faster for rows in DRAM, where the hardware prefetcher stops
   * at each page, and free for rows in the cache. 8 and 32 lines are both slower. */
  AHEAD = 16,
};

/* A vector of bf16 as two of float32: the even elements shifted up, the odd ones masked. No element
 * crosses a lane, so both conversions are one cheap instruction. */
static inline floats even(words pairs) { return (floats)(pairs << 16); }

static inline floats odd(words pairs) { return (floats)(pairs & 0xFFFF0000); }

/* bf16 of each lane, in the upper half; the lower half is undefined. */
static inline words rounded(floats value) {
  const words bits = (words)value;
  const words up = bits + ((bits >> 16 & 1) + 0x7FFF);
  return where_nan(value, bits | 0x400000, up);
}

static inline words packed(floats even_sum, floats odd_sum) {
  return lower_and_upper(rounded(even_sum) >> 16, rounded(odd_sum));
}

/* `n` is a constant wherever speed matters, so that the row pointers stay in registers. */
static inline __attribute__((always_inline)) void sum_lines(const bf16* const* rows, int n,
                                                            bf16* out, size_t lines, bool stream) {
  for (size_t at = 0; at < lines * ELEMENTS; at += ELEMENTS) {
    floats even_sum[PARTS] = {0};
    floats odd_sum[PARTS] = {0};
    for (int r = 0; r < n; r++) {
      const char* line = (const char*)(rows[r] + at);
      __builtin_prefetch(line + AHEAD * LINE);
      for (int p = 0; p < PARTS; p++) {
        const words pairs = vector_load(line + p * VECTOR);
        even_sum[p] += even(pairs);
        odd_sum[p] += odd(pairs);
      }
    }
    words result[PARTS];
    for (int p = 0; p < PARTS; p++) result[p] = packed(even_sum[p], odd_sum[p]);
    if (stream) {
      line_stream(out + at, result);
    } else {
      for (int p = 0; p < PARTS; p++) vector_store((char*)(out + at) + p * VECTOR, result[p]);
    }
  }
}

static inline __attribute__((always_inline)) void sum_by_count(const bf16* const* rows, int n,
                                                               bf16* out, size_t hidden,
                                                               bool stream) {
  const size_t lines = hidden / ELEMENTS;
  switch (n) {
    case 1:
      sum_lines(rows, 1, out, lines, stream);
      break;
    case 2:
      sum_lines(rows, 2, out, lines, stream);
      break;
    case 3:
      sum_lines(rows, 3, out, lines, stream);
      break;
    case 4:
      sum_lines(rows, 4, out, lines, stream);
      break;
    case 5:
      sum_lines(rows, 5, out, lines, stream);
      break;
    case 6:
      sum_lines(rows, 6, out, lines, stream);
      break;
    case 7:
      sum_lines(rows, 7, out, lines, stream);
      break;
    case 8:
      sum_lines(rows, 8, out, lines, stream);
      break;
    default:
      sum_lines(rows, n, out, lines, stream);
      break;
  }
  sum_scalar(rows, n, out, lines * ELEMENTS, hidden);
}

void bf16_sum(const bf16* const* rows, int n, bf16* out, size_t hidden) {
  sum_by_count(rows, n, out, hidden, false);
}

void bf16_sum_stream(const bf16* const* rows, int n, bf16* out, size_t hidden) {
  sum_by_count(rows, n, out, hidden, true);
}

void bf16_sum_fence(void) { line_fence(); }

const char* bf16_sum_variant(void) { return VECTOR_NAME; }
