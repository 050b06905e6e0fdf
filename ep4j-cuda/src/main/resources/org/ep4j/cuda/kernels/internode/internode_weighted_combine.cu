// High-throughput combine of EXPERT_MAJOR rows across nodes that applies weights: roles, budget and
// invariant as in internode_combine.cu, and 256 bytes of shared memory a warp for weights. Rows are
// multiplied where they are first added, in push_partial.
#define EP4J_APPLY_WEIGHTS 1
#include "internode/internode_combine.cu"
