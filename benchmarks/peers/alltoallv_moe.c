/* Dispatch and combine with MPI_Alltoallv, the common implementation.
 *
 * Dispatch packs the rows by destination (a token once per rank), exchanges counts, then rows and
 * metadata, and unpacks the metadata; the rows need no unpacking, since senders pack in token order
 * and receivers place by source. Combine exchanges the experts' rows in the reverse direction and
 * sums.
 *
 * Variants: `exchange` sends all rows through MPI, a rank's own rows included. `self` keeps a
 * rank's own rows out of MPI: dispatch packs them directly into the receive buffer, combine reads
 * them in place. */
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"
#include "peer.h"
#include "placement.h"

/* Counts and displacements of one direction, in rows: an int counts 2^31 rows, not bytes. */
typedef struct {
  int rows[MAX_RANKS];
  int first[MAX_RANKS];
} spans;

/* The routes of one set: combine uses them in reverse. */
typedef struct {
  placement placement;
  spans sent;
  spans got;
} handle;

typedef struct {
  const workload* w;
  bool self; /* the variant */
  expert_owners owners;
  handle* handles;    /* [buffers] */
  bf16** expert_rows; /* [buffers]: [max_recv_rows, hidden] */
  size_t meta_bytes;  /* of one row's packed metadata: int64 [topk], float [topk] */
  size_t send_room;   /* rows */
  size_t recv_room;
  bf16* send; /* [send_room, hidden]; combine receives here */
  char* send_meta;
  bf16* recv; /* [recv_room, hidden] */
  char* recv_meta;
  int64_t* recv_idx;  /* [recv_room, topk] */
  float* recv_weight; /* [recv_room, topk] */
  MPI_Datatype row_type;
  MPI_Datatype meta_type;
} alltoallv;

static MPI_Datatype bytes_type(size_t bytes) {
  MPI_Datatype type;
  MPI_Type_contiguous((int)bytes, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

static void* open_peer(const workload* w) {
  const options* o = &w->options;
  alltoallv* a = calloc(1, sizeof *a);
  handle* handles = calloc(o->buffers, sizeof *handles);
  bf16** expert_rows = calloc(o->buffers, sizeof *expert_rows);
  if (a == NULL || handles == NULL || expert_rows == NULL) {
    fprintf(stderr, "cannot open the peer: memory is short\n");
    exit(1);
  }
  *a = (alltoallv){.w = w,
                   .self = strcmp(o->variant, "self") == 0,
                   .handles = handles,
                   .expert_rows = expert_rows};
  const size_t row = workload_row_bytes(w);
  a->meta_bytes = o->topk * (sizeof(int64_t) + sizeof(float));
  a->send_room = (size_t)o->tokens * w->world.ranks;
  a->recv_room = w->max_recv_rows;
  expert_owners_open(&a->owners, w);
  for (int b = 0; b < o->buffers; b++) {
    placement_open(&handles[b].placement, w);
    expert_rows[b] = pages_alloc(a->recv_room * row);
  }
  a->send = pages_alloc(a->send_room * row);
  a->recv = pages_alloc(a->recv_room * row);
  a->send_meta = pages_alloc(a->send_room * a->meta_bytes);
  a->recv_meta = pages_alloc(a->recv_room * a->meta_bytes);
  a->recv_idx = pages_alloc(a->recv_room * o->topk * sizeof *a->recv_idx);
  a->recv_weight = pages_alloc(a->recv_room * o->topk * sizeof *a->recv_weight);
  a->row_type = bytes_type(row);
  a->meta_type = bytes_type(a->meta_bytes);
  return a;
}

static void close_peer(void* state) {
  alltoallv* a = state;
  const options* o = &a->w->options;
  const size_t row = workload_row_bytes(a->w);
  for (int b = 0; b < o->buffers; b++) {
    placement_close(&a->handles[b].placement);
    pages_free(a->expert_rows[b], a->recv_room * row);
  }
  pages_free(a->send, a->send_room * row);
  pages_free(a->recv, a->recv_room * row);
  pages_free(a->send_meta, a->send_room * a->meta_bytes);
  pages_free(a->recv_meta, a->recv_room * a->meta_bytes);
  pages_free(a->recv_idx, a->recv_room * o->topk * sizeof *a->recv_idx);
  pages_free(a->recv_weight, a->recv_room * o->topk * sizeof *a->recv_weight);
  MPI_Type_free(&a->row_type);
  MPI_Type_free(&a->meta_type);
  expert_owners_close(&a->owners);
  free(a->expert_rows);
  free(a->handles);
  free(a);
}

static int place_in_order(spans* s, int ranks) {
  int next = 0;
  for (int r = 0; r < ranks; r++) {
    s->first[r] = next;
    next += s->rows[r];
  }
  return next;
}

/* The counts for MPI: 0 to this rank in the variant `self`. */
static const int* through_mpi(const alltoallv* a, const spans* s, int rows[MAX_RANKS]) {
  memcpy(rows, s->rows, sizeof s->rows);
  if (a->self) rows[a->w->world.rank] = 0;
  return rows;
}

static void pack(alltoallv* a, const handle* h, int set) {
  const workload* w = a->w;
  const input_set* in = &w->sets[set];
  const size_t row = workload_row_bytes(w);
  const int topk = w->options.topk;
  char *rows[MAX_RANKS], *meta[MAX_RANKS];
  for (int d = 0; d < w->world.ranks; d++) {
    const bool own = a->self && d == w->world.rank;
    rows[d] =
        own ? (char*)a->recv + h->got.first[d] * row : (char*)a->send + h->sent.first[d] * row;
    meta[d] = own ? a->recv_meta + h->got.first[d] * a->meta_bytes
                  : a->send_meta + h->sent.first[d] * a->meta_bytes;
  }
  for (int t = 0; t < w->options.tokens; t++) {
    const size_t at = (size_t)t * topk;
    for (uint64_t ranks = h->placement.ranks[t]; ranks != 0; ranks &= ranks - 1) {
      const int d = __builtin_ctzll(ranks);
      memcpy(rows[d], (const char*)in->x + t * row, row);
      placement_rebase(w, d, in->idx + at, in->weight + at, (int64_t*)meta[d],
                       (float*)(meta[d] + topk * sizeof(int64_t)));
      rows[d] += row;
      meta[d] += a->meta_bytes;
    }
  }
}

static void unpack_meta(alltoallv* a, int count) {
  const size_t topk = a->w->options.topk;
  const char* meta = a->recv_meta;
  for (int i = 0; i < count; i++, meta += a->meta_bytes) {
    memcpy(a->recv_idx + i * topk, meta, topk * sizeof(int64_t));
    memcpy(a->recv_weight + i * topk, meta + topk * sizeof(int64_t), topk * sizeof(float));
  }
}

static received dispatch(void* state, int set) {
  alltoallv* a = state;
  handle* h = &a->handles[set];
  const int ranks = a->w->world.ranks;
  placement_compute(&h->placement, a->w, &a->owners, set);
  memcpy(h->sent.rows, h->placement.send_rows, sizeof h->sent.rows);
  MPI_Alltoall(h->sent.rows, 1, MPI_INT, h->got.rows, 1, MPI_INT, MPI_COMM_WORLD);
  place_in_order(&h->sent, ranks);
  const int count = place_in_order(&h->got, ranks);
  pack(a, h, set);
  int sent[MAX_RANKS], got[MAX_RANKS];
  through_mpi(a, &h->sent, sent);
  through_mpi(a, &h->got, got);
  MPI_Alltoallv(a->send_meta, sent, h->sent.first, a->meta_type, a->recv_meta, got, h->got.first,
                a->meta_type, MPI_COMM_WORLD);
  MPI_Alltoallv(a->send, sent, h->sent.first, a->row_type, a->recv, got, h->got.first, a->row_type,
                MPI_COMM_WORLD);
  unpack_meta(a, count);
  return (received){.count = count, .rows = a->recv, .idx = a->recv_idx, .weight = a->recv_weight};
}

static bf16* expert_rows(void* state, int set) { return ((alltoallv*)state)->expert_rows[set]; }

static void combine(void* state, int set) {
  alltoallv* a = state;
  const workload* w = a->w;
  const handle* h = &a->handles[set];
  const size_t hidden = w->options.hidden;
  const bf16* rows = a->expert_rows[set];
  int sent[MAX_RANKS], got[MAX_RANKS];
  MPI_Alltoallv(rows, through_mpi(a, &h->got, got), h->got.first, a->row_type, a->send,
                through_mpi(a, &h->sent, sent), h->sent.first, a->row_type, MPI_COMM_WORLD);
  const bf16* parts[MAX_RANKS];
  for (int r = 0; r < w->world.ranks; r++) {
    const bool own = a->self && r == w->world.rank;
    parts[r] = own ? rows + h->got.first[r] * hidden : a->send + h->sent.first[r] * hidden;
  }
  placement_sum(&h->placement, w, set, parts);
}

int main(int argc, char** argv) {
  const peer p = {.name = "alltoallv",
                  .variants = "exchange self",
                  .open = open_peer,
                  .close = close_peer,
                  .dispatch = dispatch,
                  .expert_rows = expert_rows,
                  .combine = combine};
  return peer_main(argc, argv, &p);
}
