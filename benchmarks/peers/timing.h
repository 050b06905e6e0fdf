/* Durations of repeated collective operations, and their report. */
#ifndef EP4J_PEERS_TIMING_H
#define EP4J_PEERS_TIMING_H

#include <stdint.h>

#include "workload.h"

typedef struct {
  int count;
  int64_t*
      ns; /* [count]: of this rank; after timing_finish, the maximum over the ranks, ascending */
} timing;

/* Ends the program if memory is short. */
void timing_open(timing* t, int count);
void timing_close(timing* t);

/* Collective. */
void timing_finish(timing* t);

/* Prints a finished timing; `bytes`: moved by a rank in one operation. Call on rank 0 only. */
void timing_print(const timing* t, const workload* w, const char* peer, const char* variant,
                  const char* op, double bytes);

#endif
