/* Copies of a row into the windows of several ranks. */
#ifndef EP4J_PEERS_ROW_COPY_H
#define EP4J_PEERS_ROW_COPY_H

#include <stddef.h>

/* Copies `bytes` to each of n destinations with memcpy. */
void row_copy_cached(char* const* to, int n, const char* from, size_t bytes);

/* The same with stores that bypass the cache: the receiver's lines are not fetched only to be
 * overwritten. `bytes` is a multiple of 64, the destinations are 64-byte aligned. Call
 * row_copy_fence before the receivers are notified. */
void row_copy_stream(char* const* to, int n, const char* from, size_t bytes);

/* Orders streaming stores before every later store of this thread. */
void row_copy_fence(void);

#endif
