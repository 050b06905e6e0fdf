// The same where no row travels as lines: `low_latency_by_ranks_flagged_world SEED CASES`.
#define EP4J_LINES 0
#include "low_latency_by_ranks_world.cpp"
