// Pieces of rows that travel as lines: each carries the number of its operation, so that whoever wants
// the row looks at the row itself, without a flag and without a fence.
//
// A line has 128 bytes and begins at a multiple of that. Its last word is the number. A piece is the
// lines of its values; the words that stood where the numbers are follow in one more line, in the
// order of their lines, and behind them the piece's scales. Only rows travel in this memory, and all
// of them as lines: in the place of a number there has never been anything but a number. It begins
// zeroed.
//
// Writer: a warp of the source (dispatch) or the holder (combine), each line by one instruction.
// Reader: any warp of the rank, each line by one instruction; if the number is not yet there, again.
// What this relies on is not in the memory model of PTX, which orders single accesses of lanes: that
// GPUs and NVLink pass on whole a line that neighbouring lanes store by one instruction, and that
// L2 gives it out whole to one that loads it. NCCL's LL128 relies on the same. PCIe may cut lines
// apart; without NVLink rows have flags. Another operation's line cannot come in between: nobody
// writes before all readers have said that they are done; see `received`.
#pragma once
#include "low_latency_waits.cuh"

// Whether rows between the GPUs of a node travel so, but those that come home one a choice: where the
// host was asked for it. Not across nodes, and not without NVLink.
#ifndef EP4J_LL_PACKETS
#define EP4J_LL_PACKETS 0
#endif
constexpr bool LL_PACKETS = EP4J_LL_PACKETS;

constexpr u32 LL_PACKET_BYTES = 128;

// Lines and the bytes of a piece of so many vectors of 512 bytes, with the line more.
__device__ __forceinline__ constexpr u32 packet_bytes(u32 vectors) { return vectors * 512 + LL_PACKET_BYTES; }

// What a line of an operation carries, never 0. The same number comes again 2^32 operations later.
__device__ __forceinline__ u32 packet_flag(const Operation& op) { return max((u32)op.number, 1u); }

// A piece's place among the lines of a slot; VECTORS_OF: those of a piece in the format at hand.
template <u32 VECTORS_OF>
__device__ __forceinline__ char* packet_piece(const Operation& op, char* area, u64 slot, u32 piece) {
  return area + op.p.packets_offset + slot * pieces_of(op.p) * packet_bytes(VECTORS) +
         piece * packet_bytes(VECTORS_OF);
}

// Bytes of the values from a piece on, of rows that have so many bits a value: lines behind them are
// not sent.
__device__ __forceinline__ u32 bytes_from(const LowLatencyParameters& p, u32 piece, u32 bits) {
  return p.hidden % PIECE == 0 ? ~0u : ((u32)p.hidden - piece * PIECE) * bits / 8;
}

__device__ __forceinline__ u32& last_word(uint4& v) { return v.w; }
__device__ __forceinline__ u32& last_word(uint2& v) { return v.y; }
__device__ __forceinline__ u32& last_word(u32& v) { return v; }

// A piece on its way out: vector v of a lane lies at (32 v + lane) times the vector's size.
template <class Vector>
struct LlPacketWriter {
  static constexpr u32 LANES = LL_PACKET_BYTES / sizeof(Vector);  // of a line
  static constexpr u32 EACH = 32 / LANES;              // lines of a vector
  static constexpr u32 VALUE_PACKETS = VECTORS * EACH;
  Vector values[VECTORS];
  u32 last;

  // `scales`: lane l has word l of them.
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
    last = lane == 31 ? number : last;
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

// N vectors of 16 bytes a lane, of a piece that has ALL.
template <u32 N, u32 ALL>
struct LlPacketReader {
  static constexpr u32 VALUE_PACKETS = ALL * 4;
  uint4 held[N];
  u32 last;  // word of the last line

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

  // Whether all lines carry the number.
  __device__ __forceinline__ bool are_there(u32 number, u32 begin, u32 bytes) const {
    bool good = lane_id() != 31 || last == number;
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      good = good && (lane_id() % 8 != 7 || !is_sent(begin + i, bytes) || held[i].w == number);
    }
    return __all_sync(0xffffffff, good);
  }

  // Puts the words back where the numbers are.
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

  // Waits for lines that have been looked at already; false when that is vain. All lanes alike; see
  // `await` for why the loop is here.
  __device__ __forceinline__ bool await(const Operation& op, u32 peer, const char* piece, u32 begin,
                                        u32 bytes) {
    u32 number = packet_flag(op);
    if (!are_there(number, begin, bytes)) {
      u64 since = op.p.waits == nullptr ? 0 : nanoseconds();
#pragma unroll 1
      for (u32 polls = 1;; polls++) {
        load(piece, begin, bytes);
        if (are_there(number, begin, bytes)) {
          break;
        }
        if ((polls & 0xff) == 0 &&
            __any_sync(0xffffffff, lane_id() == 31 && should_abort_or_mask(op, polls, PHASE_ROWS, peer,
                                                               op.number, last))) {
          return false;
        }
      }
      if (op.p.waits != nullptr && lane_id() == 0) {
        record_wait(op, peer, since);
      }
    }
    restore_values(begin);
    return true;
  }
};
