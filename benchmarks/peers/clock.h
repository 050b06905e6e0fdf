#ifndef EP4J_PEERS_CLOCK_H
#define EP4J_PEERS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic nanoseconds with one origin for all processes of a host. */
static inline int64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
