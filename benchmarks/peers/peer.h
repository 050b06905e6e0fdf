/* The interface of a peer; peer_main is the common program. */
#ifndef EP4J_PEERS_PEER_H
#define EP4J_PEERS_PEER_H

#include "verify.h"
#include "workload.h"

typedef struct {
  const char* name;
  const char* variants; /* separated by blanks, the best first */

  /* Collective. The state lasts until close and keeps a pointer to the workload. */
  void* (*open)(const workload* w);
  void (*close)(void* state);

  /* Collective. Delivers the rows of a set; the view is valid until the next dispatch. */
  received (*dispatch)(void* state, int set);

  /* Destination of the rows of this rank's experts for a set, in the order received, before
   * combine. The peer chooses the memory, so that no copy of the rows is timed. */
  bf16* (*expert_rows)(void* state, int set);

  /* Collective, after a dispatch of the same set: sums into sets[set].combined. */
  void (*combine)(void* state, int set);
} peer;

/* Runs a peer: verify, time, verify again, report. Returns the exit status. */
int peer_main(int argc, char** argv, const peer* p);

#endif
