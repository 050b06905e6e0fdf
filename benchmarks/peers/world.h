/* This process's rank, and the size of the run. */
#ifndef EP4J_PEERS_WORLD_H
#define EP4J_PEERS_WORLD_H

enum {
  MAX_RANKS = 64, /* a token's destinations are the bits of one uint64_t */
  MAX_TOPK = 64,
};

typedef struct {
  int rank;
  int ranks;
  int cores; /* cores that all ranks together may run on */
} world;

#endif
