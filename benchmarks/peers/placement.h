/* Local work of both peers: the destinations of tokens, the metadata of rows, the sums. */
#ifndef EP4J_PEERS_PLACEMENT_H
#define EP4J_PEERS_PLACEMENT_H

#include <stdint.h>

#include "workload.h"

/* Destinations of the tokens of a set. One per input set, because combine needs it. */
typedef struct {
  uint64_t* ranks;          /* [tokens]: destinations of a token, as bits */
  int send_rows[MAX_RANKS]; /* rows for each destination */
} placement;

/* The owner of each expert, as a table: a division would cost more than the rest. */
typedef struct {
  uint8_t* rank; /* [experts] */
} expert_owners;

/* These end the program if memory is short. */
void expert_owners_open(expert_owners* owners, const workload* w);
void expert_owners_close(expert_owners* owners);
void placement_open(placement* p, const workload* w);
void placement_close(placement* p);

/* Computes the destinations of a set. */
void placement_compute(placement* p, const workload* w, const expert_owners* owners, int set);

/* Top-k ids and weights of a token as `holder` sees them: -1 and 0 where an expert is not local. */
static inline void placement_rebase(const workload* w, int holder, const int64_t* idx,
                                    const float* weight, int64_t* local_idx, float* local_weight) {
  const int64_t first = (int64_t)holder * w->local_experts;
  for (int k = 0; k < w->options.topk; k++) {
    const int64_t expert = idx[k] - first;
    const int local = (uint64_t)expert < (uint64_t)w->local_experts;
    local_idx[k] = local ? expert : -1;
    local_weight[k] = local ? weight[k] : 0;
  }
}

/* Sums each token's rows over the ranks that hold it, in ascending order, into sets[set].combined.
 * parts[r] is the first of this rank's rows at rank r; they are contiguous, in token order. */
void placement_sum(const placement* p, const workload* w, int set, const bf16* const* parts);

#endif
