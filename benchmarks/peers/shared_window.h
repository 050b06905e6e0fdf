/* Memory of every rank of a host, mapped by all of them. */
#ifndef EP4J_PEERS_SHARED_WINDOW_H
#define EP4J_PEERS_SHARED_WINDOW_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "world.h"

typedef struct {
  int ranks;
  size_t bytes;
  char* base[MAX_RANKS]; /* of each rank's part, in this process */
  MPI_Win window;        /* MPI_WIN_NULL for a memfd window */
} shared_window;

/* Collective. Every rank contributes `bytes` and zeroes them, so that the pages are on its NUMA
 * node. With `memfd` the parts are anonymous shared memory on huge pages where the kernel grants
 * them; else they are from MPI_Win_allocate_shared, which maps files on small pages. Ends the
 * program if memory is short. */
void shared_window_open(shared_window* s, const world* here, size_t bytes, bool memfd);
void shared_window_close(shared_window* s);

#endif
