// What an epoch of the soak is made of: tokens, routings, answers of experts, all of them functions
// of (seed, epoch, rank, token, place in the row), so that whoever receives a row can tell on its
// own device what must be in it. Nothing here is shared with the kernels under test. Words, Poison
// and What come from the host, see SoakSources.
//
// Every kernel is a loop over elements whose turns do not depend on one another: no shared memory,
// no barrier. So it can also be compiled for the host, where one thread does all of it.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#include "words.cuh"

// Kinds of keys.
enum { ROUTING = 1, WEIGHT, PAYLOAD, SCALE, ANSWER, ANSWER_WEIGHT, BIAS, SALTED = 16 };

// Words of Words::totals: rows by local expert and source rank, then these.
enum { FROM = 256, NEEDED = 264, RECEIVED, TOTALS };

// Words of Words::report.
enum { WRONG, FIRST, SAMPLE, EXPECTED, FOUND, CHECKED };

__device__ __forceinline__ u32 first_item() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u32 item_stride() { return gridDim.x * blockDim.x; }

__device__ __forceinline__ u32 mixed(u32 x) {
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ x >> 16;
}

__device__ __forceinline__ u32 key(const Words& w, u32 kind, u32 a, u32 b) {
  u32 h = mixed((u32)w.seed ^ mixed((u32)w.epoch * 0x9E3779B9u + kind));
  h = mixed(h ^ a * 0x85EBCA6Bu);
  return mixed(h ^ b * 0xC2B2AE35u);
}

// Another one for each dispatch along the same ways.
__device__ __forceinline__ u32 salted(const Words& w, u32 kind, u32 a, u32 b) {
  return key(w, kind + SALTED * (u32)w.salt, a, b);
}

__device__ __forceinline__ u32 at(u32 key, u32 position) { return mixed(key + position * 0x9E3779B9u); }

__device__ __forceinline__ u32 tokens_of(const Words& w, u32 rank) {
  return (u32)(w.tokens >> 16 * rank) & 0xFFFF;
}

// Choices of a token: a byte each, expert + 1, or 0 for none.
__device__ inline u64 choices(const Words& w, u32 rank, u32 token) {
  u32 h = key(w, ROUTING, rank, token);
  if ((at(h, 1u << 20) & 255) < w.empty) {
    return 0;
  }
  u64 packed = 0;
  u64 taken = 0;
  u32 attempt = 0;
  for (u32 k = 0; k < w.top_k; k++) {
    u32 expert;
    do {
      expert = (u32)w.first_expert + at(h, attempt++) % (u32)w.expert_span;
    } while (taken >> expert & 1);
    taken |= 1ull << expert;
    if ((at(h, (1u << 21) + k) & 255) >= w.masked) {
      packed |= (u64)(expert + 1) << 8 * k;
    }
  }
  return packed;
}

__device__ __forceinline__ int expert_of(u64 route, u32 k) { return (int)(route >> 8 * k & 255) - 1; }

__device__ __forceinline__ u32 local_experts(const Words& w) {
  return (u32)w.experts / (u32)w.ranks;
}

__device__ __forceinline__ u32 owner(const Words& w, int expert) {
  return (u32)expert / local_experts(w);
}

__device__ __forceinline__ bool is_local(const Words& w, int expert) {
  return expert >= 0 && owner(w, expert) == w.rank;
}

// The weight of a choice: small where it is multiplied, any where it only travels.
__device__ __forceinline__ int latency_weight(const Words& w, u32 rank, u32 token, u32 k) {
  u32 h = at(key(w, WEIGHT, rank, token), k);
  int size = 1 + (int)(h & 3);
  return h & 4 ? -size : size;
}

__device__ __forceinline__ float weight(const Words& w, u32 rank, u32 token, u32 k) {
  return w.low_latency ? (float)latency_weight(w, rank, token, k)
                       : (float)(1 + at(key(w, WEIGHT, rank, token), k) % 65521);
}

__device__ __forceinline__ u32 float_bits(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(u32, value);
#endif
}

// BF16 of a number that it holds exactly.
__device__ __forceinline__ u32 bf16(float exact) { return float_bits(exact) >> 16; }

// --- rows that low latency turns into FP8 without loss ------------------------------------------
// A block of 128: whole numbers up to 16 but for one of 448, all times a power of two. So amax is
// 448 times that power, the multiplier its inverse, and the FP8 values are the whole numbers.

struct Element {
  int whole;
  int power;
};

__device__ inline Element fp8_element(const Words& w, u32 rank, u32 token, u32 column) {
  u32 row = salted(w, PAYLOAD, rank, token);
  u32 block = at(row, (1u << 20) + column / 128);
  int power = (int)(block % 7) - 3;
  if ((block >> 8 & 127) == column % 128) {
    return {block >> 16 & 1 ? -448 : 448, power};
  }
  return {(int)(at(row, column) % 33) - 16, power};
}

__device__ inline u32 fp8_source(const Words& w, u32 rank, u32 token, u32 column) {
  Element e = fp8_element(w, rank, token, column);
  u32 bits = float_bits((float)e.whole);
  return (e.whole == 0 ? 0 : bits + ((u32)e.power << 23)) >> 16;
}

// E4M3 of a whole number up to 16, or of 448.
__device__ inline u32 e4m3(int whole) {
  if (whole == 0) {
    return 0;
  }
  u32 size = (u32)(whole < 0 ? -whole : whole);
  u32 sign = whole < 0 ? 0x80 : 0;
  u32 exponent = 0;
  while (size >> (exponent + 1) != 0) {
    exponent++;
  }
  return sign | (exponent + 7) << 3 | ((size - (1u << exponent)) * 8 >> exponent);
}

// --- payload ------------------------------------------------------------------------------------

// A word of a row as it is sent.
__device__ inline u32 sent_word(const Words& w, u32 rank, u32 token, u32 word) {
  if (w.quantised) {
    return fp8_source(w, rank, token, 2 * word) | fp8_source(w, rank, token, 2 * word + 1) << 16;
  }
  return at(salted(w, PAYLOAD, rank, token), word);
}

// A word of a row as it must arrive.
__device__ inline u32 received_word(const Words& w, u32 rank, u32 token, u32 word) {
  if (!w.quantised) {
    return sent_word(w, rank, token, word);
  }
  u32 bytes = 0;
  for (u32 i = 0; i < 4; i++) {
    bytes |= e4m3(fp8_element(w, rank, token, 4 * word + i).whole) << 8 * i;
  }
  return bytes;
}

// A scale as it must arrive; high throughput sends it so.
__device__ inline u32 scale_word(const Words& w, u32 rank, u32 token, u32 column) {
  if (w.quantised) {
    int power = fp8_element(w, rank, token, 128 * column).power;
    return (u32)w.scale_bits + ((u32)power << 23);
  }
  return at(salted(w, SCALE, rank, token), column);
}

// --- what experts answer ------------------------------------------------------------------------

// Whole numbers from -spread to spread.
__device__ __forceinline__ int small(u32 bits, u32 spread) {
  return (int)((bits & 0xFFFF) % (2 * spread + 1)) - (int)spread;
}

// What a rank answers to a choice of a token: two columns, so small that sums of all choices are
// exact in BF16. FLAT: there is one answer, to choice 0.
__device__ __forceinline__ u32 answer_bits(const Words& w, u32 holder, u32 rank, u32 token, u32 k,
                                           u32 word) {
  return at(salted(w, ANSWER, holder << 8 | k, rank << 16 | token), word);
}

__device__ __forceinline__ u32 spread(const Words& w) { return w.low_latency ? 7 : 31; }

__device__ __forceinline__ float answer_weight(const Words& w, u32 holder, u32 rank, u32 token,
                                               u32 k) {
  u32 h = salted(w, ANSWER_WEIGHT, holder, rank << 16 | token);
  return (float)(1 + at(h, k) % 1000);
}

__device__ __forceinline__ u32 bias_bits(const Words& w, u32 rank, u32 token, u32 word) {
  return at(salted(w, BIAS, rank, token), word);
}

enum { BIAS_SPREAD = 7 };

__device__ __forceinline__ u32 pair(int low, int high) {
  return bf16((float)low) | bf16((float)high) << 16;
}

// --- what is wrong ------------------------------------------------------------------------------

// Remembers the first mistake by place, and what was found in one of them. Rows are counted in the
// tensor, columns in bytes of the row.
__device__ inline void wrong(const Words& w, u32 what, u32 row, u32 column, u64 expected,
                             u64 found) {
  u64* report = (u64*)w.report;
  u64 position = w.epoch << 40 | (u64)what << 35 | (u64)(row & 0x3FFFF) << 17 | (column & 0x1FFFF);
  atomicMin(report + FIRST, position);
  if (atomicAdd(report + WRONG, 1ull) == 0) {
    report[SAMPLE] = position;
    report[EXPECTED] = expected;
    report[FOUND] = found;
  }
}

// Compares an element and makes it unrecognisable, so that the next operation has to write it.
template <typename T>
__device__ __forceinline__ void check(const Words& w, u32 what, u32 row, u32 column, T expected,
                                      T* found) {
  T value = *found;
  if (value != expected) {
    wrong(w, what, row, column, (u64)expected, (u64)value);
  }
  *found = (T)POISON;
}
