// Packets in the ring of a queue pair, what travels with them, and what a receiver refuses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "abi.h"
#include "fabric.h"

namespace soft {

struct Packet {
  uint64_t number;     // of the packet, from 0
  uint64_t remote;     // of its first byte
  uint64_t message;    // bytes of the whole message
  int64_t arrives;     // ns of the monotonic clock
  uint32_t from, to;   // queue pairs
  uint32_t bytes, remoteKey, opcode, immediate;
  uint32_t first, last;
};

static_assert(sizeof(Packet) == 64, "packets are aligned");

constexpr bool isAtomic(uint32_t opcode) {
  return opcode == COMPARE_AND_SWAP || opcode == FETCH_AND_ADD;
}

// Whether the other end answers with bytes.
constexpr bool isAnswered(uint32_t opcode) { return opcode == READ || isAtomic(opcode); }

// Bytes that travel with a packet which concerns some bytes of memory.
constexpr uint64_t payload(uint32_t opcode, uint64_t bytes) {
  return opcode == READ ? 0 : isAtomic(opcode) ? sizeof(Operands) : bytes;
}

constexpr uint64_t inRing(uint64_t payload) {
  return sizeof(Packet) + ((payload + 63) & ~63ull);
}

// The part of a payload before the end of the ring; the rest is at its beginning.
inline uint64_t beforeEnd(uint64_t at, uint64_t bytes) {
  return std::min(bytes, RING_BYTES - at % RING_BYTES);
}

enum Refusal : uint32_t { NOTHING, OUT_OF_SEQUENCE, NOT_READY, NO_ACCESS, INVALID, FAILED };

inline uint64_t refusal(Refusal why, uint64_t packet) { return packet << 8 | why; }

}  // namespace soft
