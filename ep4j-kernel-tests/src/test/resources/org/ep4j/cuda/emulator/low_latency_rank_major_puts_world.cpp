// low_latency_puts_world by source ranks: `low_latency_rank_major_puts_world SEED CASES`.
#define EP4J_RANK_MAJOR 1
#include "low_latency_puts_world.cpp"
