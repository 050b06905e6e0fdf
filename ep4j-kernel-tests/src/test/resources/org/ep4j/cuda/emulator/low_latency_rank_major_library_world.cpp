// low_latency_library_world by source ranks: `low_latency_rank_major_library_world SEED CASES`.
#define EP4J_RANK_MAJOR 1
#include "low_latency_library_world.cpp"
