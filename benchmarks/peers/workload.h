/* The data of a run: what each rank sends, and what its experts answer. All of it follows from the
 * seed
 * (../ROUTING.md), so every rank can tell what any other rank holds. */
#ifndef EP4J_PEERS_WORKLOAD_H
#define EP4J_PEERS_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "bf16_sum.h"
#include "options.h"
#include "routing.h"
#include "world.h"

/* One of the input sets in rotation. */
typedef struct {
  routing routing;
  bf16* x;        /* [tokens, hidden] */
  int64_t* idx;   /* [tokens, topk] */
  float* weight;  /* [tokens, topk] */
  bf16* combined; /* [tokens, hidden]: where the sums of this set go */
  int recv_rows;  /* that this rank receives for this set */
} input_set;

typedef struct {
  world world;
  options options;
  int local_experts;
  input_set* sets;       /* [options.buffers] */
  int max_recv_rows;     /* over all sets and ranks */
  double mean_recv_rows; /* likewise */
} workload;

/* Collective. Ends the program when memory is short. */
void workload_open(workload* w, world world, const options* o);
void workload_close(workload* w);

static inline size_t workload_row_bytes(const workload* w) {
  return (size_t)w->options.hidden * sizeof(bf16);
}

/* Ranks that hold one of a token's experts, as bits. */
uint64_t workload_destinations(const workload* w, const int64_t* idx);

/* The row that `source` sends for `token`. */
void workload_token_row(const workload* w, int set, int source, int token, bf16* row);

/* The row that the experts of `holder` answer to `token` of `source`. */
void workload_expert_row(const workload* w, int set, int holder, int source, int token, bf16* row);

/* Writes all that this rank's experts answer, in the order received, to rows [recv_rows, hidden].
 */
void workload_expert_rows(const workload* w, int set, bf16* rows);

#endif
