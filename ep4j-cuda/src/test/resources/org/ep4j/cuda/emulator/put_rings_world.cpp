// The same on nodes between which the proxy carries them: `put_rings_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 1
#include "putting.hpp"
