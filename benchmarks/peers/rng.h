/* splitmix64, the only source of randomness in the benchmarks. Specified in ../ROUTING.md. */
#ifndef EP4J_PEERS_RNG_H
#define EP4J_PEERS_RNG_H

#include <stdint.h>

#define RNG_GAMMA UINT64_C(0x9E3779B97F4A7C15)

/* Bijective finaliser of splitmix64. */
static inline uint64_t rng_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* Next 64 bits of the stream whose state is *state. */
static inline uint64_t rng_next(uint64_t* state) { return rng_mix(*state += RNG_GAMMA); }

/* Integer in [0, n), 1 <= n < 2^31, from the upper 32 bits of one output. */
static inline uint32_t rng_below(uint64_t* state, uint32_t n) {
  return (uint32_t)(((rng_next(state) >> 32) * n) >> 32);
}

/* Start of the stream of one token: each token has its own, so any token can be drawn alone. */
static inline uint64_t rng_token_state(uint64_t seed, uint32_t rank, uint32_t token) {
  return rng_mix(seed ^ rng_mix(((uint64_t)rank << 32 | token) + RNG_GAMMA));
}

#endif
