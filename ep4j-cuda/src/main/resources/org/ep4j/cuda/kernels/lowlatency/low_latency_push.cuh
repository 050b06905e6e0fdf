// The warps of a low-latency combine that push return rows.
#pragma once
#include "transport/library.cuh"
#include "lowlatency/low_latency_groups.cuh"
#include "lowlatency/low_latency_return.cuh"
#include "lowlatency/ll_packets.cuh"
#include "lowlatency/low_latency_sums.cuh"

// Rows that a warp holds at a time, to push or to add them; bounded by registers.
constexpr u32 ROWS_PUSHED = CALLS_LIBRARY ? 1 : PUTS ? 2 : 4;
constexpr u32 ROWS_ADDED = CALLS_LIBRARY ? 1 : 2;

// A flag of this lane to be raised later. Raised after the next loads have been issued, so that the
// stores it covers have had time to complete.
struct DeferredFlag {
  u64* at = nullptr;
  u64 value;

  __device__ __forceinline__ void raise() {
    if (at != nullptr) {
      store_release_system(at, value);
    }
    at = nullptr;
  }
};

// Pushes the pieces of up to ROWS rows at a time: lane l of `lanes` holds a row and its
// destination.
template <u32 ROWS>
__device__ __forceinline__ void push_pieces(u32 lanes, const char* row, char* destination, u32 piece,
                                            u32 hidden, DeferredFlag& deferred) {
  while (lanes != 0) {
    uint4 held[ROWS][VECTORS];
    char* to[ROWS];
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      u32 lane = lanes != 0 ? __ffs(lanes) - 1 : 0;
      const char* from = (const char*)__shfl_sync(0xffffffff, (u64)row, lane);
      char* target = (char*)__shfl_sync(0xffffffff, (u64)destination, lane);
      to[i] = lanes != 0 ? target : nullptr;
      if (lanes != 0) {
        load_values(held[i], from, piece * PIECE, hidden);
      }
      lanes &= lanes - 1;
    }
    deferred.raise();
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
      if (to[i] != nullptr) {
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
          u32 at = value_at(piece, v);
          if (at < hidden) {
            store_row(to[i] + at * 2, held[i][v]);
          }
        }
      }
    }
  }
}

// The same for LogFMT rows; bit l of the result: the piece of lane l is packed.
__device__ __forceinline__ u32 push_logfmt(u32 lanes, const char* row, char* destination, u32 piece,
                                           u32 hidden, DeferredFlag& deferred) {
  u32 packed = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    u32 lane = __ffs(lanes) - 1;
    uint4 x[VECTORS];
    const char* from = (const char*)__shfl_sync(0xffffffff, (u64)row, lane);
    load_values(x, from, piece * PIECE, hidden);
    deferred.raise();
    char* to = (char*)__shfl_sync(0xffffffff, (u64)destination, lane) + piece * PIECE * 2;
    packed |= (logfmt::store_piece(to, x, piece, hidden) ? 1u : 0u) << lane;
  }
  return packed;
}

// Pushes an item to the area of the token's source, one row a choice.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void push_choices(const Operation& op, char* area, const ReturnItem& item,
                                             u32 choices, DeferredFlag& deferred) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  ReturnPut<PUTS> put(op, item);
  for (u32 first = 0; first < choices; first += 32) {
    u32 k = first + lane_id();
    u32 row_index = item.row_index_of(op, first, choices);
    u32 lanes = __ballot_sync(0xffffffff, row_index != NO_ENTRY);
    const char* row = p.x + (u64)row_index * hidden * 2;
    u64 slot = op.choice_slot(item.token, k);
    char* destination = put.begin() ? put.row(lanes) : op.row_of_slot(area, item.source, (u32)p.rank, slot, slot);
    u32 packed = 0;
    if constexpr (RETURN_FORMAT == RETURN_LOGFMT) {
      packed = push_logfmt(lanes, row, destination, item.piece, hidden, deferred);
    } else {
      push_pieces<ROWS_PUSHED>(lanes, row, destination, item.piece, hidden, deferred);
    }
    __syncwarp();
    if (put.submit(lanes, slot, slot)) {
      put.set_packed(first, packed);
    } else if (put.skips_flags()) {
      if (RETURN_FORMAT == RETURN_LOGFMT) {
        put.publish_packed(area, first, packed);
      }
    } else if (row_index != NO_ENTRY) {
      deferred.at = op.return_flags(area, item.token, item.piece) + k;
      deferred.value = op.number | (packed >> lane_id() & 1 ? FLAG_BIT : 0);
    }
  }
  put.end(area, RETURN_FORMAT == RETURN_LOGFMT);
}

// Pushes the one row of an item as packets.
__device__ __forceinline__ void push_packets(const Operation& op, char* area, const ReturnItem& item,
                                           const uint4 (&values)[VECTORS]) {
  u64 slot = op.token_slot((u32)op.p.rank, item.token);
  LlPacketWriter<uint4>(op, values, 0)
      .store(packet_piece<VECTORS>(op, area, slot, item.piece), bytes_from(op.p, item.piece, 16));
}

// Pushes an item as one rounded sum of all rows.
__device__ __forceinline__ void push_partial(const Operation& op, char* area, const ReturnItem& item,
                                             u32 choices, DeferredFlag& deferred) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  Sums<VECTORS> sums;
  sums.clear();
  bool any = false;
  for (u32 first = 0; first < choices; first += 32) {
    u32 row_index = item.row_index_of(op, first, choices);
    any = any || __any_sync(0xffffffff, row_index != NO_ENTRY);
    u32 bits = NO_WEIGHT;
    bool witness = !MAPPED && blockIdx.x == 0 && is_first_thread();
    bool weights_arrived = row_index == NO_ENTRY ||
                await_value(op,
                            op.entries(op.own, item.source, item.token) + first + lane_id(),
                            item.source, PHASE_COUNTS | IN_OWN_PART, bits,
                            first == 0 ? item.weight : 0, witness);
    // An incomplete sum would be taken for a complete one.
    if (!__all_sync(0xffffffff, weights_arrived)) {
      return;
    }
    u32 lanes = __ballot_sync(0xffffffff, bits != NO_WEIGHT);
    const char* row = p.x + (u64)row_index * hidden * 2;
    add_weighted<ROWS_ADDED>(sums, lanes, row, __uint_as_float(bits), item.piece * PIECE, hidden);
  }
  if constexpr (LL_PACKETS) {
    if (any) {
      uint4 values[VECTORS];
      sums.round(values);
      push_packets(op, area, item, values);
    }
    return;
  }
  deferred.raise();
  if (any) {
    ReturnPut<PUTS> put(op, item);
    u64 slot = op.token_slot((u32)p.rank, item.token);
    sums.store(put.begin() ? put.row_of_token()
                           : op.row_of_slot(area, item.source, (u32)p.rank, slot, item.token),
               item.piece * PIECE, hidden);
    __syncwarp();
    if (!put.submit(1, slot, item.token) && !put.skips_flags() && is_first_lane()) {
      deferred.at = op.return_flags(area, item.token, item.piece) + p.rank;
      deferred.value = op.number;
    }
  }
}

// Pushes the row that the caller has summed.
__device__ __forceinline__ void push_summed(const Operation& op, char* area, const ReturnItem& item,
                                            u32 choices, DeferredFlag& deferred) {
  const LowLatencyParameters& p = op.p;
  u32 hidden = (u32)p.hidden;
  ReturnPut<PUTS> put(op, item);
  u64 slot = op.token_slot((u32)p.rank, item.token);
  char* destination = put.begin() ? put.row_of_token()
                                  : op.row_of_slot(area, item.source, (u32)p.rank, slot, item.token);
  for (u32 first = 0; first < choices; first += 32) {
    u32 row_index = item.row_index_of(op, first, choices);
    u32 lanes = __ballot_sync(0xffffffff, row_index != NO_ENTRY);
    if constexpr (LL_PACKETS) {
      if (lanes != 0) {
        u64 row = __shfl_sync(0xffffffff, row_index, __ffs(lanes) - 1);
        uint4 values[VECTORS];
        load_values(values, p.x + row * hidden * 2, item.piece * PIECE, hidden);
        push_packets(op, area, item, values);
        return;
      }
    } else if (lanes != 0) {
      push_pieces<1>(lanes & -lanes, p.x + (u64)row_index * hidden * 2, destination, item.piece, hidden, deferred);
      __syncwarp();
      if (!put.submit(1, slot, item.token) && !put.skips_flags() && is_first_lane()) {
        deferred.at = op.return_flags(area, item.token, item.piece) + p.rank;
        deferred.value = op.number;
      }
      return;
    }
  }
}

// Pushing warps of a block. MAPPED: one other warp publishes groups, and one starts the relay at
// once.
constexpr u32 PUSHERS = MAPPED ? WARPS - 2 : WARPS;
constexpr u32 RELAY = MAPPED ? PUSHERS : 0;

// First item of this warp.
__device__ __forceinline__ u32 first_unit(const LowLatencyParameters& p) {
  u32 warp = warp_id() * gridDim.x + blockIdx.x;
  return PUTS ? warp * pieces_of(p) : warp;
}

// `batches`: of all ranks, in shared memory.
template <ReturnFormat RETURN_FORMAT>
__device__ __forceinline__ void return_rows(const Operation& op, char* const* areas, const u32* batches,
                                          ReturnItem next) {
  const LowLatencyParameters& p = op.p;
  u32 largest = 0;
  for (u32 s = 0; s < p.ranks; s++) {
    largest = max(largest, batches[s] & 0xffff);
  }
  u32 end = largest * (u32)p.ranks * pieces_of(p);
  DeferredFlag deferred;
  if constexpr (MAPPED) {
    if (warp_id() > RELAY) {
      publish_groups(op, areas, largest, PUSHERS + 1, blockIdx.x, gridDim.x);
    }
    if (warp_id() >= PUSHERS) {
      return;
    }
  }
  GroupProgress<MAPPED> groups(PUSHERS + 1);
  while (next.unit < end) {
    ReturnItem item = next;
    groups.reach(item.token / tokens_of_group(op));
    // Prefetched while this item is pushed.
    next = ReturnItem(op, item.next(op, gridDim.x * PUSHERS));
    u32 batch = batches[item.source];
    char* area = areas[item.source];
    if (item.token >= (batch & 0xffff) || area == nullptr) {
      continue;
    }
    if constexpr (RETURN_FORMAT == RETURN_PARTIAL) {
      push_partial(op, area, item, batch >> 16, deferred);
    } else if constexpr (RETURN_FORMAT == RETURN_SUMMED) {
      push_summed(op, area, item, batch >> 16, deferred);
    } else {
      push_choices<RETURN_FORMAT>(op, area, item, batch >> 16, deferred);
    }
  }
  deferred.raise();
  groups.reach(groups_of(op, largest));
}
