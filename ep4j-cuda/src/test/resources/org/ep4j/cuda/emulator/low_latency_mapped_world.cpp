// The same on several nodes whose ranks write into each other's memory of the host:
// `low_latency_mapped_world SEED CASES`.
#define EP4J_INTERNODE 1
#include "low_latency_world.cpp"
