// Puts of kernels where stores reach all: `put_stores_world SEED CASES`.
#define EP4J_PUT_CARRIER 0
#include "putting.hpp"
