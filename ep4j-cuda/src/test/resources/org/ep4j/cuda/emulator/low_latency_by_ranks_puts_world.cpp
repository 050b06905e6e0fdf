// The same by source ranks: `low_latency_by_ranks_puts_world SEED CASES`.
#define EP4J_BY_RANKS 1
#include "low_latency_puts_world.cpp"
