/* Checks of a peer's results against the workload's definition, sharing no code with the peers. */
#ifndef EP4J_PEERS_VERIFY_H
#define EP4J_PEERS_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

/* Rows that a dispatch delivered to this rank, ordered by (source rank, source token). */
typedef struct {
  int count;
  const bf16* rows;    /* [count, hidden] */
  const int64_t* idx;  /* [count, topk], rebased to local experts, -1 where not local */
  const float* weight; /* [count, topk], 0 where not local */
} received;

/* Compare every byte. They report the first difference on stderr and return false. */
bool verify_dispatch(const workload* w, int set, const received* r);
bool verify_combine(const workload* w, int set);

#endif
