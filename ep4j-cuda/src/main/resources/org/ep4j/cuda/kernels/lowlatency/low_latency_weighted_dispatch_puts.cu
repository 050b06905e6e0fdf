// Low-latency dispatch that delivers weights, across nodes by puts: roles, budget and invariant as in
// low_latency_dispatch.cu; see EP4J_INTERNODE_PUTS in low_latency.cuh.
#define EP4J_INTERNODE 2
#include "lowlatency/low_latency_weighted_dispatch.cu"
