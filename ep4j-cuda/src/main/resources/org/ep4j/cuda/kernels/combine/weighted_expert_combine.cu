// High-throughput combine of EXPERT_MAJOR rows within one node that applies weights: roles, budget
// and invariant as in expert_combine.cu, and 256 bytes of shared memory a warp for weights.
#define EP4J_APPLY_WEIGHTS 1
#include "combine/expert_combine.cu"
