/* Deterministic top-k routing, bit-identical to that of `ep4j bench`. See ../ROUTING.md. */
#ifndef EP4J_PEERS_ROUTING_H
#define EP4J_PEERS_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { ROUTING_UNIFORM, ROUTING_ZIPF, ROUTING_HOT } routing_kind;

/* A generator for one seed: immutable after routing_open. */
typedef struct {
  routing_kind kind;
  uint64_t seed;
  uint32_t experts;
  uint32_t topk;
  uint32_t hot;     /* ROUTING_HOT: size of the hot group, the experts 0 .. hot-1 */
  uint32_t* expert; /* ROUTING_ZIPF: expert at each rank of popularity */
  uint32_t* bound;  /* ROUTING_ZIPF: inclusive prefix sums of the weights by popularity */
} routing;

/* Name of a kind as on the command line, and the inverse; false if the name is unknown. */
const char* routing_name(routing_kind kind);
bool routing_parse(const char* name, routing_kind* kind);

/* Prepares a generator; false if memory is short or topk is not in 1 .. experts. */
bool routing_open(routing* r, routing_kind kind, uint64_t seed, uint32_t experts, uint32_t topk);
void routing_close(routing* r);

/* Writes topk distinct experts of one token, in the order drawn, and their weights in (0, 1]. */
void routing_token(const routing* r, uint32_t rank, uint32_t token, int64_t* idx, float* weight);

#endif
