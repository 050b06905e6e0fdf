// put_stores_world on nodes between which the proxy carries puts: `put_rings_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 1
#include "putting.hpp"
