// The same where a library of a backend carries rows between nodes: `far_library_world SEED CASES`.
#define EP4J_PUT_CARRIER 2
#include "far_world.cpp"
