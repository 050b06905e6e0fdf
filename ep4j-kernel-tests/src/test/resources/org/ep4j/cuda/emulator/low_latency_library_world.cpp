// low_latency_puts_world with a backend library that carries rows: `low_latency_library_world SEED
// CASES`.
#define EP4J_PUT_TRANSPORT 2
#include "low_latency_puts_world.cpp"
