/* The inner kernel of combine: sums of n bf16 rows, without any communication.
 *
 *   reduce_bf16 [--rows N] [--hidden H] [--set-mb M] [--seconds S] [--stream] [--json]
 *
 * The input rows of M MiB (0: of one sum only, which stays in the cache) are read repeatedly; with
 * M well over the last-level cache the rows are in DRAM. All results go to one output row that
 * stays in the cache, so that the figure measures reading and adding. Reported: the median of
 * passes, as ns per sum (one output row) and as GB/s of bytes read. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16_sum.h"
#include "clock.h"
#include "pages.h"
#include "rng.h"

enum { MAX_ROWS = 64, MAX_PASSES = 100000 };

typedef struct {
  int rows;
  size_t hidden;
  size_t set_mb;
  double seconds;
  bool stream;
  bool json;
} options;

static _Noreturn void usage(const char* problem) {
  fprintf(stderr,
          "%s\nusage: reduce_bf16 [--rows 1..%d] [--hidden H] [--set-mb M] [--seconds S] [--stream]"
          " [--json]\n",
          problem, MAX_ROWS);
  exit(2);
}

static options parse(int argc, char** argv) {
  options o = {.rows = 8, .hidden = 7168, .set_mb = 0, .seconds = 0.5};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) {
      o.json = true;
    } else if (strcmp(argv[i], "--stream") == 0) {
      o.stream = true;
    } else if (i + 1 == argc) {
      usage("unknown option, or its value is missing");
    } else if (strcmp(argv[i], "--rows") == 0) {
      o.rows = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--hidden") == 0) {
      o.hidden = strtoul(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--set-mb") == 0) {
      o.set_mb = strtoul(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--seconds") == 0) {
      o.seconds = atof(argv[++i]);
    } else {
      usage("unknown option");
    }
  }
  if (o.rows < 1 || o.rows > MAX_ROWS) usage("--rows is out of range");
  if (o.hidden == 0 || o.hidden % 32 != 0) usage("--hidden must be a positive multiple of 32");
  return o;
}

/* Random bits; with `finite`, random signs and magnitudes in [1/8, 2) only. */
static void fill(bf16* data, size_t count, bool finite) {
  uint64_t state = 1;
  for (size_t i = 0; i < count; i++) {
    const bf16 bits = (bf16)rng_next(&state);
    data[i] = finite ? (bits & 0x81FF) | 0x3E00 : bits;
  }
}

static void sum_at(const options* o, const bf16* data, size_t sum, bf16* out) {
  const bf16* rows[MAX_ROWS];
  for (int r = 0; r < o->rows; r++) rows[r] = data + (sum * o->rows + r) * o->hidden;
  (o->stream ? bf16_sum_stream : bf16_sum)(rows, o->rows, out, o->hidden);
}

static bool same(bf16 a, bf16 b) {
  return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80); /* any NaN is a NaN */
}

/* Compares the first sum with the definition; ends the program if they differ. */
static void check(const options* o, const bf16* data, bf16* out) {
  const bf16* rows[MAX_ROWS];
  for (int r = 0; r < o->rows; r++) rows[r] = data + r * o->hidden;
  sum_at(o, data, 0, out);
  for (size_t i = 0; i < o->hidden; i++) {
    const bf16 expected = bf16_sum_element(rows, o->rows, i);
    if (!same(out[i], expected)) {
      fprintf(stderr, "wrong sum at element %zu: %04x, expected %04x\n", i, out[i], expected);
      exit(1);
    }
  }
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const size_t sum_bytes = o.rows * o.hidden * sizeof(bf16);
  const size_t sums = (o.set_mb << 20) / sum_bytes > 1 ? (o.set_mb << 20) / sum_bytes : 1;
  bf16* data = pages_alloc(sums * sum_bytes);
  bf16* out = pages_alloc(o.hidden * sizeof(bf16));
  fill(data, o.rows * o.hidden, false); /* infinities, NaN, subnormals, both zeros */
  check(&o, data, out);
  fill(data, sums * o.rows * o.hidden, true);
  check(&o, data, out);

  /* A pass is long enough for the clock: over the whole set, and over 200 sums at least. */
  const size_t per_pass = sums > 200 ? sums : 200;
  static double pass_ns[MAX_PASSES];
  int passes = 0;
  const int64_t end = clock_ns() + (int64_t)(o.seconds * 1e9);
  do {
    const int64_t start = clock_ns();
    for (size_t s = 0; s < per_pass; s++) sum_at(&o, data, s % sums, out);
    pass_ns[passes++] = (double)(clock_ns() - start) / per_pass;
  } while (passes < 3 || (passes < MAX_PASSES && clock_ns() < end));
  qsort(pass_ns, passes, sizeof *pass_ns, ascending);

  const double median = pass_ns[passes / 2];
  printf(o.json
             ? "{\"op\":\"reduce_bf16\",\"variant\":\"%s\",\"rows\":%d,\"hidden\":%zu,"
               "\"set_kb\":%zu,\"median_ns\":%.1f,\"min_ns\":%.1f,\"read_gbps\":%.2f}\n"
             : "%s, %d rows of %zu, set %zu KiB: median %.1f ns a sum, min %.1f, read %.2f GB/s\n",
         bf16_sum_variant(), o.rows, o.hidden, sums * sum_bytes >> 10, median, pass_ns[0],
         sum_bytes / median);
  pages_free(data, sums * sum_bytes);
  pages_free(out, o.hidden * sizeof(bf16));
  return 0;
}
