// Low-latency combine by source ranks across nodes by puts: roles, budget and invariant as in
// low_latency_combine.cu; see EP4J_INTERNODE_PUTS in low_latency.cuh.
#define EP4J_INTERNODE 2
#include "lowlatency/low_latency_combine_rank_major.cu"
