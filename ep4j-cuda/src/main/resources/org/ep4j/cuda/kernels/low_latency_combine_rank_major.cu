// Low-latency combine by source ranks, org.ep4j.RowLayout.RANK_MAJOR; see low_latency.cuh.
#define EP4J_RANK_MAJOR 1
#include "low_latency_combine.cu"
