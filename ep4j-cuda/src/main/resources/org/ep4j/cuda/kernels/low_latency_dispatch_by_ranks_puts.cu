// Low-latency dispatch by source ranks on several nodes, see EP4J_FAR_PUTS in low_latency.cuh.
#define EP4J_FAR 2
#include "low_latency_dispatch_by_ranks.cu"
