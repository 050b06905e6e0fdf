/* A cache line as vectors of the widest kind that the compiler may use: AVX-512, AVX2, SSE2 or NEON.
 *
 * Arithmetic on them is that of GCC's vector extensions, which gcc and clang have. This
 * file names instructions for stores that bypass the cache, and where compilers emit more of them than
 * necessary. NEON: GCC 12 compiles it, and its sums and copies are right under QEMU; no AArch64 machine
 * has run or timed it. */
#ifndef EP4J_PEERS_CACHE_LINE_H
#define EP4J_PEERS_CACHE_LINE_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_NAME "avx512"
enum { VECTOR = 64 };
#elif defined(__AVX2__)
#define VECTOR_NAME "avx2"
enum { VECTOR = 32 };
#elif defined(__SSE2__)
#define VECTOR_NAME "sse2"
enum { VECTOR = 16 };
#elif defined(__ARM_NEON)
#define VECTOR_NAME "neon"
enum { VECTOR = 16 };
#else
#error "no vectors that bypass the cache are known for this processor: add them here"
#endif

enum { LINE = 64, PARTS = LINE / VECTOR };

typedef uint32_t words __attribute__((vector_size(VECTOR)));
typedef float floats __attribute__((vector_size(VECTOR)));

static inline words vector_load(const void* from) {
  words value;
  memcpy(&value, from, sizeof value); /* one unaligned load */
  return value;
}

static inline void vector_store(void* to, words value) { memcpy(to, &value, sizeof value); }

/* `then` in the lanes where value is NaN, `otherwise` in the others. */
static inline words where_nan(floats value, words then, words otherwise) {
#if defined(__AVX512F__)
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
  return (words)_mm512_mask_mov_epi32((__m512i)otherwise, nan, (__m512i)then);
#elif defined(__AVX2__)
  const __m256 nan = _mm256_cmp_ps((__m256)value, (__m256)value, _CMP_UNORD_Q);
  return (words)_mm256_blendv_ps((__m256)otherwise, (__m256)then, nan);
#else
  const words nan = (words)(value != value);
  return (otherwise & ~nan) | (then & nan);
#endif
}

/* `low`, whose upper halves are 0, with the upper halves of `high`. */
static inline words lower_and_upper(words low, words high) {
#if defined(__AVX512F__)
  /* 0xF8: a | (b & c) */
  return (words)_mm512_ternarylogic_epi32((__m512i)low, (__m512i)high,
                                          _mm512_set1_epi32((int)0xFFFF0000), 0xF8);
#elif defined(__AVX2__)
  return (words)_mm256_blend_epi16((__m256i)low, (__m256i)high, 0xAA);
#else
  return low | (high & 0xFFFF0000);
#endif
}

/* Writes a line past the cache: the line is not fetched only to be overwritten. `to` is aligned to a
 * line. */
static inline void line_stream(void* to, const words line[PARTS]) {
  char* at = to;
#if defined(__AVX512F__)
  _mm512_stream_si512((void*)at, (__m512i)line[0]);
#elif defined(__AVX2__)
  _mm256_stream_si256((void*)at, (__m256i)line[0]);
  _mm256_stream_si256((void*)(at + VECTOR), (__m256i)line[1]);
#elif defined(__SSE2__)
  for (int p = 0; p < PARTS; p++) _mm_stream_si128((void*)(at + p * VECTOR), (__m128i)line[p]);
#else
  __asm__ volatile("stnp %q0, %q1, [%2]" : : "w"(line[0]), "w"(line[1]), "r"(at) : "memory");
  __asm__ volatile("stnp %q0, %q1, [%2, 32]" : : "w"(line[2]), "w"(line[3]), "r"(at) : "memory");
#endif
}

/* Orders all line_stream before every later store of this thread. */
static inline void line_fence(void) {
#if defined(__SSE2__)
  _mm_sfence();
#else
  __atomic_thread_fence(__ATOMIC_RELEASE); /* stnp is an ordinary store to the memory model */
#endif
}

/* For a thread that spins. */
static inline void spin_pause(void) {
#if defined(__SSE2__)
  _mm_pause();
#else
  __asm__ volatile("isb" : : : "memory");
#endif
}

#endif
