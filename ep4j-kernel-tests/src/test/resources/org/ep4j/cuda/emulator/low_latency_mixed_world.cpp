// low_latency_world in both layouts, drawn for each dispatch: `low_latency_mixed_world SEED CASES`.
#define EP4J_MIXED 1
#include "low_latency_world.cpp"
