// Low-latency dispatch that delivers weights, across nodes with mapped host memory: roles, budget and
// invariant as in low_latency_dispatch.cu; see EP4J_INTERNODE_MAPPED in low_latency.cuh.
#define EP4J_INTERNODE 1
#include "lowlatency/low_latency_weighted_dispatch.cu"
