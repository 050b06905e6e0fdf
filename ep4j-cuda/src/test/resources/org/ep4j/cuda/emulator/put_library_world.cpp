// The same where device functions of a library carry them: `put_library_world SEED CASES`.
#define EP4J_PUT_TRANSPORT 2
#include "putting.hpp"
