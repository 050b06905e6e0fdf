/* Sums of bf16 rows in float32: the arithmetic of combine.
 *
 * Each element is 0 + row[0] + row[1] + ... in float32, in the order of the rows, then rounded once
 * to bf16, to nearest even. NaN becomes a quiet NaN of the same sign. */
#ifndef EP4J_PEERS_BF16_SUM_H
#define EP4J_PEERS_BF16_SUM_H

#include <stddef.h>
#include <stdint.h>

typedef uint16_t bf16; /* the upper half of a float32 */

/* Sums n >= 0 rows of `hidden` elements into out. Rows have any alignment; out overlaps none. */
void bf16_sum(const bf16* const* rows, int n, bf16* out, size_t hidden);

/* The same with stores that bypass the cache; out must be 64-byte aligned, hidden a multiple of 32.
 * Call bf16_sum_fence after the last sum, before another thread is notified. */
void bf16_sum_stream(const bf16* const* rows, int n, bf16* out, size_t hidden);

/* Orders the streaming stores before every later store of this thread. */
void bf16_sum_fence(void);

/* One element, without vectors: the definition for the tests. */
bf16 bf16_sum_element(const bf16* const* rows, int n, size_t index);

/* The vectors of the sums and of the streaming stores: "avx512", "avx2", "sse2" or "neon". */
const char* bf16_sum_variant(void);

#endif
