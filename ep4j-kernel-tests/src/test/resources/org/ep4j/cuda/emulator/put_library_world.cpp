// put_stores_world with device functions of a library: `put_library_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 2
#include "putting.hpp"
