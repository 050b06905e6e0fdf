// across_nodes with a backend library that carries rows between nodes: `across_nodes_library SEED
// CASES WORLD`.
#define EP4J_PUT_TRANSPORT 2
#include "across_nodes.cpp"
