// internode_world with a backend library that carries rows between nodes: `internode_library_world
// SEED CASES`.
#define EP4J_PUT_TRANSPORT 2
#include "internode_world.cpp"
