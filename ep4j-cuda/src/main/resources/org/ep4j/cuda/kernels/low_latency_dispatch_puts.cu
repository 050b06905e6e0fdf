// Low-latency dispatch on several nodes, see EP4J_INTERNODE_PUTS in low_latency.cuh.
#define EP4J_INTERNODE 2
#include "low_latency_dispatch.cu"
