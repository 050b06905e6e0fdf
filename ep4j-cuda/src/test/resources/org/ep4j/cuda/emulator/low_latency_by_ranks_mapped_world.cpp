// The same by source ranks: `low_latency_by_ranks_mapped_world SEED CASES`.
#define EP4J_BY_RANKS 1
#include "low_latency_mapped_world.cpp"
