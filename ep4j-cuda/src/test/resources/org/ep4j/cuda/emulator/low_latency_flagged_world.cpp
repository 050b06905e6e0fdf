// The same where no row travels as lines: `low_latency_flagged_world SEED CASES`.
#define EP4J_LL_PACKETS 0
#include "low_latency_world.cpp"
