// Puts of kernels where stores reach all ranks: `put_stores_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 0
#include "putting.hpp"
