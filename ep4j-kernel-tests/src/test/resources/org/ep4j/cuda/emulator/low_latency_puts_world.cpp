// low_latency_world on several nodes between which a wire carries rows: `low_latency_puts_world
// SEED CASES`.
#define EP4J_INTERNODE 2
#include "low_latency_world.cpp"
