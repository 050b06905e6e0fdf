#include "ceilings.h"

#include <mpi.h>
#include <string.h>

#include "clock.h"
#include "pages.h"
#include "row_copy.h"
#include "timing.h"

enum { WARMUP = 2, MAX_REPEATS = 50 };

/* Private memory on huge pages: an upper bound for shared windows. */
typedef struct {
  const workload* w;
  char* source; /* one part of `bytes` for each input set, used in rotation */
  char* target; /* capacity for the rows of any one set, a part for each destination */
  size_t bytes; /* of all rows of a set, mean over ranks: equal work for all */
  volatile uint64_t sink;
} area;

static char* source_of(const area* a, int repeat) {
  return a->source + repeat % a->w->options.buffers * a->bytes;
}

static void copy_bulk(area* a, int repeat) { memcpy(a->target, source_of(a, repeat), a->bytes); }

/* A copy that does not fetch lines only to overwrite them. */
static void stream_bulk(area* a, int repeat) {
  row_copy_stream(&a->target, 1, source_of(a, repeat), a->bytes);
  row_copy_fence();
}

/* The rows of a dispatch, each to the next slot of its destination's part: the same reads and
 * writes as direct placement, in private memory. */
static void copy_rows(area* a, int repeat) {
  const workload* w = a->w;
  const options* o = &w->options;
  const input_set* in = &w->sets[repeat % o->buffers];
  const size_t row = workload_row_bytes(w);
  char* next[MAX_RANKS];
  for (int d = 0; d < w->world.ranks; d++) next[d] = a->target + d * o->tokens * row;
  for (int t = 0; t < o->tokens; t++) {
    uint64_t ranks = workload_destinations(w, in->idx + (size_t)t * o->topk);
    for (; ranks != 0; ranks &= ranks - 1) {
      const int d = __builtin_ctzll(ranks);
      memcpy(next[d], (const char*)in->x + t * row, row);
      next[d] += row;
    }
  }
}

/* Eight independent sums of vectors, so that memory is the only bottleneck. */
static void read_all(area* a, int repeat) {
  typedef uint64_t vector __attribute__((vector_size(64)));
  const vector* data = (const vector*)source_of(a, repeat);
  vector sum[8] = {{0}};
  const size_t blocks = a->bytes / sizeof sum;
  for (size_t i = 0; i < blocks; i++) {
    for (int k = 0; k < 8; k++) sum[k] += data[i * 8 + k];
    __builtin_prefetch(data + i * 8 + 32);
    __builtin_prefetch(data + i * 8 + 34);
    __builtin_prefetch(data + i * 8 + 36);
    __builtin_prefetch(data + i * 8 + 38);
  }
  for (int k = 0; k < 8; k++) a->sink += sum[k][0] + sum[k][7];
}

/* A repetition lasts from the first start to the last end over all ranks: with more ranks than
 * cores some start late, and their own durations would omit the wait for a core. (Operations of the
 * peers wait for each other, so there the slowest rank's duration includes it.) */
static void measure(area* a, const char* op, void (*work)(area*, int)) {
  const options* o = &a->w->options;
  const int repeats = o->iterations < MAX_REPEATS ? o->iterations : MAX_REPEATS;
  timing start, t;
  timing_open(&start, repeats);
  timing_open(&t, repeats);
  for (int i = -WARMUP; i < repeats; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t begun = clock_ns();
    work(a, i + WARMUP);
    if (i < 0) continue;
    start.ns[i] = begun;
    t.ns[i] = clock_ns();
  }
  MPI_Allreduce(MPI_IN_PLACE, start.ns, repeats, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  for (int i = 0; i < repeats; i++) t.ns[i] -= start.ns[i];
  timing_finish(&t);
  if (a->w->world.rank == 0) timing_print(&t, a->w, "ceiling", "memory", op, (double)a->bytes);
  timing_close(&t);
  timing_close(&start);
}

void ceilings_run(const workload* w) {
  const size_t row = workload_row_bytes(w);
  area a = {.w = w, .bytes = (size_t)w->mean_recv_rows * row};
  const size_t sources = w->options.buffers * a.bytes;
  const size_t room = (size_t)w->options.tokens * w->world.ranks * row;
  a.source = pages_alloc(sources);
  a.target = pages_alloc(room);
  memset(a.source, 1, sources); /* so that no page is the kernel's shared zero page */
  measure(&a, "memcpy_bulk", copy_bulk);
  measure(&a, "memcpy_rows", copy_rows);
  measure(&a, "stream_bulk", stream_bulk);
  measure(&a, "read", read_all);
  pages_free(a.source, sources);
  pages_free(a.target, room);
}
