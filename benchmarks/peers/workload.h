/* The data of a run: the rows that each rank sends, and the answers of its experts. All data
 * follows from the seed (../ROUTING.md), so every rank can compute the data of any other rank. */
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
  bf16* combined; /* [tokens, hidden]: the sums of this set */
  int recv_rows;  /* number of rows that this rank receives for this set */
} input_set;

typedef struct {
  world world;
  options options;
  int local_experts;
  input_set* sets;       /* [options.buffers] */
  int max_recv_rows;     /* over all sets and ranks */
  double mean_recv_rows; /* likewise */
} workload;

/* Collective. Ends the program if memory is short. */
void workload_open(workload* w, world world, const options* o);
void workload_close(workload* w);

static inline size_t workload_row_bytes(const workload* w) {
  return (size_t)w->options.hidden * sizeof(bf16);
}

/* Ranks that own one of a token's experts, as bits. */
uint64_t workload_destinations(const workload* w, const int64_t* idx);

/* The row that `source` sends for `token`. */
void workload_token_row(const workload* w, int set, int source, int token, bf16* row);

/* The answer of the experts of `holder` to `token` of `source`. */
void workload_expert_row(const workload* w, int set, int holder, int source, int token, bf16* row);

/* Writes all answers of this rank's experts, in the order received, to rows [recv_rows, hidden]. */
void workload_expert_rows(const workload* w, int set, bf16* rows);

#endif
