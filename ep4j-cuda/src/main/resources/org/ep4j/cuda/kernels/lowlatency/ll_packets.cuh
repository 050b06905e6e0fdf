// LL128-style packets: pieces of rows travel as packets that carry the number of their operation,
// so a reader polls the row itself, without a flag and without a fence.
//
// A packet has 128 bytes, 128-byte aligned; its last word is the number. A piece consists of the
// packets of its values and one more packet: that one holds the words displaced by the numbers, in
// packet order, and then the piece's scales. This memory holds only rows, all of them as packets,
// so the place of a number never holds anything but a number. It starts zeroed.
//
// Writer: a warp of the source (dispatch) or the holder (combine), each packet by one instruction.
// Reader: any warp of the rank, each packet by one instruction; it loads again until the number is
// right. Invariant, outside the PTX memory model (which orders single accesses of lanes): GPUs and
// NVLink transfer as a whole a packet that adjacent lanes store by one instruction, and L2 returns
// it as a whole to a load by one instruction. NCCL's LL128 relies on the same. PCIe may split
// packets, so without NVLink rows have flags. Packets of two operations cannot mix: no rank writes
// before all readers have acknowledged the earlier operation; see `received`.
#pragma once
#include "lowlatency/low_latency_waits.cuh"

// Whether rows between the GPUs of a node travel as packets, except for return rows of one row a
// choice. Set on request of the host. Never across nodes or without NVLink.
#ifndef EP4J_LL_PACKETS
#define EP4J_LL_PACKETS 0
#endif
constexpr bool LL_PACKETS = EP4J_LL_PACKETS;

constexpr u32 LL_PACKET_BYTES = 128;

// Bytes of the packets of a piece of `vectors` vectors of 512 bytes, including the extra packet.
__device__ __forceinline__ constexpr u32 packet_bytes(u32 vectors) { return vectors * 512 + LL_PACKET_BYTES; }

// The number in an operation's packets, never 0. It repeats after 2^32 operations.
__device__ __forceinline__ u32 packet_flag(const Operation& op) { return max((u32)op.number, 1u); }

// Address of a piece among the packets of a slot; VECTORS_OF: vectors of a piece in this format.
template <u32 VECTORS_OF>
__device__ __forceinline__ char* packet_piece(const Operation& op, char* area, u64 slot, u32 piece) {
  return area + op.p.packets_offset + slot * pieces_of(op.p) * packet_bytes(VECTORS) +
         piece * packet_bytes(VECTORS_OF);
}

// Bytes of the values from a piece on, for rows of `bits` bits a value: packets behind them are not
// sent.
__device__ __forceinline__ u32 bytes_from(const LowLatencyParameters& p, u32 piece, u32 bits) {
  return p.hidden % PIECE == 0 ? ~0u : ((u32)p.hidden - piece * PIECE) * bits / 8;
}

__device__ __forceinline__ u32& last_word(uint4& v) { return v.w; }
__device__ __forceinline__ u32& last_word(uint2& v) { return v.y; }
__device__ __forceinline__ u32& last_word(u32& v) { return v; }

// A piece to be sent: vector v of a lane is at (32 v + lane) times the vector's size.
template <class Vector>
struct LlPacketWriter {
  static constexpr u32 LANES = LL_PACKET_BYTES / sizeof(Vector);  // lanes of a packet
  static constexpr u32 EACH = 32 / LANES;              // packets of a vector
  static constexpr u32 VALUE_PACKETS = VECTORS * EACH;
  Vector values[VECTORS];
  u32 last;

  // `scales`: lane l has word l of the scales.
  __device__ __forceinline__ LlPacketWriter(const Operation& op, const Vector (&x)[VECTORS], u32 scales) {
    u32 lane = lane_id();
    u32 number = packet_flag(op);
    last = __shfl_sync(0xffffffff, scales, lane - VALUE_PACKETS);
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      values[v] = x[v];
      u32 moved =
          __shfl_sync(0xffffffff, last_word(values[v]), lane % EACH * LANES + LANES - 1);
      last = lane / EACH == v ? moved : last;
      last_word(values[v]) = lane % LANES == LANES - 1 ? number : last_word(values[v]);
    }
    last = is_lane(31) ? number : last;
  }

  __device__ __forceinline__ void store(char* piece, u32 bytes) const {
#pragma unroll
    for (u32 v = 0; v < VECTORS; v++) {
      u32 at = (v * 32 + lane_id()) * (u32)sizeof(Vector);
      store_packet(piece + at, values[v], at / LL_PACKET_BYTES * LL_PACKET_BYTES < bytes);
    }
    store_packet(piece + VALUE_PACKETS * LL_PACKET_BYTES + lane_id() * 4, last, true);
  }
};

// Reads N vectors of 16 bytes a lane, of a piece that has ALL.
template <u32 N, u32 ALL>
struct LlPacketReader {
  static constexpr u32 VALUE_PACKETS = ALL * 4;
  uint4 held[N];
  u32 last;  // word of the extra packet

  static __device__ __forceinline__ bool is_sent(u32 vector, u32 bytes) {
    return vector * 512 + lane_id() / 8 * LL_PACKET_BYTES < bytes;
  }

  // Loads from vector `begin` on.
  __device__ __forceinline__ void load(const char* piece, u32 begin, u32 bytes) {
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      load_packet(held[i], piece + (begin + i) * 512 + lane_id() * 16, is_sent(begin + i, bytes));
    }
    load_packet(last, piece + VALUE_PACKETS * LL_PACKET_BYTES + lane_id() * 4, true);
  }

  // Whether all packets carry the number.
  __device__ __forceinline__ bool are_there(u32 number, u32 begin, u32 bytes) const {
    bool good = !is_lane(31) || last == number;
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      good = good && (lane_id() % 8 != 7 || !is_sent(begin + i, bytes) || held[i].w == number);
    }
    return __all_sync(0xffffffff, good);
  }

  // Restores the words that the numbers displaced.
  __device__ __forceinline__ void restore_values(u32 begin) {
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      u32 word = __shfl_sync(0xffffffff, last, (begin + i) * 4 + lane_id() / 8);
      held[i].w = lane_id() % 8 == 7 ? word : held[i].w;
    }
  }

  // Word `lane` of the scales.
  __device__ __forceinline__ u32 scales() const {
    return __shfl_sync(0xffffffff, last, lane_id() + VALUE_PACKETS);
  }

  // Waits for packets after a first load(); false on abort. All lanes together; for the reason why
  // the loop is inlined see `await`.
  __device__ __forceinline__ bool await(const Operation& op, u32 peer, const char* piece, u32 begin,
                                        u32 bytes, bool witness) {
    u32 number = packet_flag(op);
    if (!are_there(number, begin, bytes)) {
      u64 since = op.p.waits == nullptr && !witness ? 0 : nanoseconds();
#pragma unroll 1
      for (u32 polls = 1;; polls++) {
        load(piece, begin, bytes);
        if (are_there(number, begin, bytes)) {
          break;
        }
        if ((polls & 0xff) == 0 &&
            __any_sync(0xffffffff, is_lane(31) && should_abort_or_mask(op, polls, PHASE_ROWS, peer,
                                                               op.number, last))) {
          return false;
        }
      }
      if (op.p.waits != nullptr && is_first_lane()) {
        record_wait(op, peer, since);
      }
      if (witness) {
        charge_wait(op.p.control, peer, since);
      }
    }
    restore_values(begin);
    return true;
  }
};
