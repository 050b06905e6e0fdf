/* What a peer provides; everything around it (peer_main) is the same for all. */
#ifndef EP4J_PEERS_PEER_H
#define EP4J_PEERS_PEER_H

#include "verify.h"
#include "workload.h"

typedef struct {
  const char* name;
  const char* variants; /* its own ways, separated by blanks, the best first */

  /* Collective. The state lasts until close and keeps a pointer to the workload. */
  void* (*open)(const workload* w);
  void (*close)(void* state);

  /* Collective. Delivers the rows of a set; the view is valid until the next dispatch. */
  received (*dispatch)(void* state, int set);

  /* Where the experts of this rank write their rows of a set, in the order received, before
   * combine: the place that suits the peer, so that no copy of them is timed. */
  bf16* (*expert_rows)(void* state, int set);

  /* Collective, after a dispatch of the same set: sums into sets[set].combined. */
  void (*combine)(void* state, int set);
} peer;

/* Runs a peer: verify, time, verify again, report. The value for main. */
int peer_main(int argc, char** argv, const peer* p);

#endif
