/* Checks of the conformance program: the first that fails ends it. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ep4j.h"

extern const ep4j_api *ep4j;

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: rank %s: %s\n", __FILE__, __LINE__,                     \
              getenv("EP4J_RANK") == NULL ? "-" : getenv("EP4J_RANK"), #condition);   \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* A call that must succeed. */
#define OK(call)                                                                      \
  do {                                                                                \
    int32_t check_status = (call);                                                    \
    if (check_status != 0) {                                                          \
      ep4j_error check_error = {sizeof check_error, 0, 0, 0, 0, {0}};                 \
      ep4j->last_error(&check_error);                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, check_error.text); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* A call that must fail with a code. */
#define FAILS(expected, call)                                                         \
  do {                                                                                \
    int32_t check_status = (call);                                                    \
    ep4j_error check_error = {sizeof check_error, 0, 0, 0, 0, {0}};                   \
    ep4j->last_error(&check_error);                                                   \
    if (check_status != (expected) || check_error.code != (expected)) {               \
      fprintf(stderr, "%s:%d: %s returned %d, not %d: %s\n", __FILE__, __LINE__, #call, \
              (int)check_status, (int)(expected), check_error.text);                  \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* Milliseconds of a clock that does not jump. */
static inline int64_t now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

#endif
