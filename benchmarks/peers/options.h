/* The command line of the two MoE peers; names and defaults follow `ep4j bench`. */
#ifndef EP4J_PEERS_OPTIONS_H
#define EP4J_PEERS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "routing.h"

typedef struct {
  int tokens; /* on each rank */
  int hidden; /* elements of a row, a multiple of 32 */
  int topk;
  int experts;    /* in all, a multiple of the ranks */
  int iterations; /* timed */
  int warmup;     /* untimed, before them */
  int buffers;    /* input sets in rotation */
  uint64_t seed;
  routing_kind routing;
  bool ceilings;       /* also measure memory bandwidth */
  bool json;           /* one JSON object a line instead of text */
  const char* variant; /* one of the peer's variants; NULL: the best */
} options;

enum { OPTIONS_PROBLEM = 1024 };

/* Parses the arguments. On an error, writes the reason and the usage to `problem` and returns
 * false. `variants` lists the peer's variants, separated by blanks, the best first. */
bool options_parse(options* o, int argc, char** argv, int ranks, const char* variants,
                   char problem[OPTIONS_PROBLEM]);

#endif
