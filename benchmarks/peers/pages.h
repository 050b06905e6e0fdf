/* Large private allocations, on huge pages where the kernel grants them. */
#ifndef EP4J_PEERS_PAGES_H
#define EP4J_PEERS_PAGES_H

#include <stddef.h>

/* Zeroed and touched bytes, 2 MiB aligned; ends the program with a message if memory is short. */
void* pages_alloc(size_t bytes);
void pages_free(void* address, size_t bytes);

#endif
