// Low-latency dispatch by source ranks, org.ep4j.config.Layout.RANK_MAJOR: roles, budget and invariant
// as in low_latency_dispatch.cu.
#define EP4J_RANK_MAJOR 1
#include "lowlatency/low_latency_dispatch.cu"
