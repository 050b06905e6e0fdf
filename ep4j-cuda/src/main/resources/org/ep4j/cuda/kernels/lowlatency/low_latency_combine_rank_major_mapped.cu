// Low-latency combine by source ranks across nodes with mapped host memory: roles, budget and
// invariant as in low_latency_combine.cu; see EP4J_INTERNODE_MAPPED in low_latency.cuh.
#define EP4J_INTERNODE 1
#include "lowlatency/low_latency_combine_rank_major.cu"
