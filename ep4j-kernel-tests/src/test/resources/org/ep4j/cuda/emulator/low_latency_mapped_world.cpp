// low_latency_world on several nodes whose ranks write into each other's host memory:
// `low_latency_mapped_world SEED CASES`.
#define EP4J_INTERNODE 1
#include "low_latency_world.cpp"
