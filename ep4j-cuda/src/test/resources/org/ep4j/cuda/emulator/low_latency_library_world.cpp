// The same where a library of a backend carries rows: `low_latency_library_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 2
#include "low_latency_puts_world.cpp"
