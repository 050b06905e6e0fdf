// The same by source ranks: `low_latency_by_ranks_library_world SEED CASES`.
#define EP4J_BY_RANKS 1
#include "low_latency_library_world.cpp"
