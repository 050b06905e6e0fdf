/* Dispatch and combine by direct placement: every rank maps every rank's window.
 *
 * Dispatch publishes the counts; from the counts of all ranks every rank derives the final slot of
 * each of its rows at every receiver, and writes row and metadata there. Combine reads the experts'
 * rows from the windows and sums. No byte is copied twice, and no message is sent.
 *
 * Variants: `cached` copies rows with memcpy, `stream` with stores that bypass the cache; `auto`
 * streams if the rows exceed the cache. `huge` is auto in anonymous shared memory
 * instead of MPI_Win_allocate_shared's files, for kernels that grant huge pages there
 * (shmem_enabled).
 *
 * Synchronisation: each rank owns one `control` at the start of its window, and is its only writer.
 * An epoch there is stored with release after the data it announces; all ranks wait with acquire:
 *
 *   counted  the counts are valid, and this rank has finished all of its earlier operations;
 *   placed   all rows of this rank's dispatch have been written at their receivers;
 *   ready    the experts' rows of this rank may be read.
 *
 * Epochs only grow, so no word is ever reset. `counted` of all ranks also permits overwriting rows:
 * their readers have finished. Counts of the next epoch overwrite these only after a rank has seen
 * `placed` of all ranks, which each rank stores after it has read the counts. */
#include <mpi.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_line.h"
#include "peer.h"
#include "placement.h"
#include "row_copy.h"
#include "shared_window.h"

enum { SPINS = 2000 };

/* Size of the rows of all ranks from which streaming is faster. Measured on one machine: at 58 MB
 * cached copies were 6 % faster, at 106 MB streaming took two thirds of the time. */
static const size_t STREAM_BYTES = (size_t)80 << 20;

typedef struct {
  alignas(LINE) _Atomic uint64_t counted;
  int32_t counts[MAX_RANKS]; /* rows for each receiver; few ranks fit the same line */
  alignas(LINE) _Atomic uint64_t placed;
  alignas(LINE) _Atomic uint64_t ready;
} control;

/* The routes of one set. */
typedef struct {
  placement placement;
  int first[MAX_RANKS]; /* slot of this rank's first row at each receiver */
} handle;

typedef struct {
  const workload* w;
  bool stream; /* copy rows with stores that bypass the cache */
  bool yield;  /* more ranks than cores: a waiting rank must let the others run */
  uint64_t epoch;
  expert_owners owners;
  handle* handles; /* [buffers] */
  shared_window window;
  size_t rows_at; /* offsets within each window: [max_recv_rows, hidden] */
  size_t idx_at;
  size_t weight_at;
  size_t expert_at; /* [buffers, max_recv_rows, hidden] */
} direct;

static control* control_of(const direct* d, int rank) { return (control*)d->window.base[rank]; }

static void* open_peer(const workload* w) {
  const options* o = &w->options;
  direct* d = calloc(1, sizeof *d);
  handle* handles = calloc(o->buffers, sizeof *handles);
  if (d == NULL || handles == NULL) {
    fprintf(stderr, "cannot open the peer: memory is short\n");
    exit(1);
  }
  *d = (direct){.w = w, .handles = handles, .yield = w->world.ranks > w->world.cores};
  const bool large = w->mean_recv_rows * workload_row_bytes(w) * w->world.ranks >= STREAM_BYTES;
  const bool cached = strcmp(o->variant, "cached") == 0;
  d->stream = strcmp(o->variant, "stream") == 0 || (large && !cached);
  expert_owners_open(&d->owners, w);
  for (int b = 0; b < o->buffers; b++) placement_open(&handles[b].placement, w);
  const size_t room = w->max_recv_rows;
  const size_t page = 4096;
  d->rows_at = (sizeof(control) + page - 1) / page * page;
  d->expert_at = d->rows_at + room * workload_row_bytes(w);
  d->idx_at = d->expert_at + o->buffers * room * workload_row_bytes(w);
  d->weight_at = d->idx_at + room * o->topk * sizeof(int64_t);
  shared_window_open(&d->window, &w->world, d->weight_at + room * o->topk * sizeof(float),
                     strcmp(o->variant, "huge") == 0);
  return d;
}

static void close_peer(void* state) {
  direct* d = state;
  shared_window_close(&d->window);
  for (int b = 0; b < d->w->options.buffers; b++) placement_close(&d->handles[b].placement);
  expert_owners_close(&d->owners);
  free(d->handles);
  free(d);
}

static void await(const direct* d, _Atomic uint64_t* flag) {
  for (int spins = 0; atomic_load_explicit(flag, memory_order_acquire) < d->epoch; spins++) {
    if (d->yield || spins > SPINS) {
      sched_yield();
    } else {
      spin_pause();
    }
  }
}

#define AWAIT_ALL(d, field)                            \
  do {                                                 \
    for (int r_ = 0; r_ < (d)->w->world.ranks; r_++) { \
      await(d, &control_of(d, r_)->field);             \
    }                                                  \
  } while (0)

/* Publishes this rank's counts, reads those of the others, returns the rows that this rank gets. */
static int exchange_counts(direct* d, handle* h) {
  const int me = d->w->world.rank, ranks = d->w->world.ranks;
  control* mine = control_of(d, me);
  for (int r = 0; r < ranks; r++) mine->counts[r] = h->placement.send_rows[r];
  atomic_store_explicit(&mine->counted, d->epoch, memory_order_release);
  AWAIT_ALL(d, counted);
  memset(h->first, 0, sizeof h->first);
  int total = 0;
  for (int source = 0; source < ranks; source++) {
    const int32_t* counts = control_of(d, source)->counts;
    for (int r = 0; source < me && r < ranks; r++) h->first[r] += counts[r];
    total += counts[me];
  }
  return total;
}

static void place(direct* d, const handle* h, int set) {
  const workload* w = d->w;
  const input_set* in = &w->sets[set];
  const size_t row = workload_row_bytes(w), topk = w->options.topk;
  void (*const copy)(char* const*, int, const char*, size_t) =
      d->stream ? row_copy_stream : row_copy_cached;
  char* rows[MAX_RANKS];
  int64_t* idx[MAX_RANKS];
  float* weight[MAX_RANKS];
  for (int r = 0; r < w->world.ranks; r++) {
    char* base = d->window.base[r];
    rows[r] = base + d->rows_at + h->first[r] * row;
    idx[r] = (int64_t*)(base + d->idx_at) + h->first[r] * topk;
    weight[r] = (float*)(base + d->weight_at) + h->first[r] * topk;
  }
  for (int t = 0; t < w->options.tokens; t++) {
    const size_t at = (size_t)t * topk;
    char* to[MAX_RANKS];
    int n = 0;
    for (uint64_t ranks = h->placement.ranks[t]; ranks != 0; ranks &= ranks - 1) {
      const int r = __builtin_ctzll(ranks);
      to[n++] = rows[r];
      placement_rebase(w, r, in->idx + at, in->weight + at, idx[r], weight[r]);
      rows[r] += row;
      idx[r] += topk;
      weight[r] += topk;
    }
    copy(to, n, (const char*)in->x + t * row, row);
  }
  row_copy_fence();
}

static received dispatch(void* state, int set) {
  direct* d = state;
  handle* h = &d->handles[set];
  const int me = d->w->world.rank;
  d->epoch++;
  placement_compute(&h->placement, d->w, &d->owners, set);
  const int count = exchange_counts(d, h);
  place(d, h, set);
  atomic_store_explicit(&control_of(d, me)->placed, d->epoch, memory_order_release);
  AWAIT_ALL(d, placed);
  const char* base = d->window.base[me];
  return (received){.count = count,
                    .rows = (const bf16*)(base + d->rows_at),
                    .idx = (const int64_t*)(base + d->idx_at),
                    .weight = (const float*)(base + d->weight_at)};
}

static bf16* rows_of_experts(const direct* d, int rank, int set) {
  const size_t room = (size_t)d->w->max_recv_rows * d->w->options.hidden;
  return (bf16*)(d->window.base[rank] + d->expert_at) + set * room;
}

static bf16* expert_rows(void* state, int set) {
  const direct* d = state;
  return rows_of_experts(d, d->w->world.rank, set);
}

static void combine(void* state, int set) {
  direct* d = state;
  const workload* w = d->w;
  const handle* h = &d->handles[set];
  d->epoch++;
  atomic_store_explicit(&control_of(d, w->world.rank)->ready, d->epoch, memory_order_release);
  AWAIT_ALL(d, ready);
  const bf16* parts[MAX_RANKS];
  for (int r = 0; r < w->world.ranks; r++) {
    parts[r] = rows_of_experts(d, r, set) + (size_t)h->first[r] * w->options.hidden;
  }
  placement_sum(&h->placement, w, set, parts);
}

int main(int argc, char** argv) {
  const peer p = {.name = "direct",
                  .variants = "auto cached stream huge",
                  .open = open_peer,
                  .close = close_peer,
                  .dispatch = dispatch,
                  .expert_rows = expert_rows,
                  .combine = combine};
  return peer_main(argc, argv, &p);
}
