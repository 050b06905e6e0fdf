// Low-latency dispatch that delivers the weights of EXPERT_MAJOR rows: roles, budget and invariant
// as in low_latency_dispatch.cu; see `weights` in low_latency.cuh.
#define EP4J_WEIGHTED 1
#include "lowlatency/low_latency_dispatch.cu"
