// low_latency_rank_major_world without packets: `low_latency_rank_major_flagged_world SEED CASES`.
#define EP4J_LL_PACKETS 0
#include "low_latency_rank_major_world.cpp"
