// The warps of a low-latency dispatch that send pieces of tokens.
#pragma once
#include "lowlatency/low_latency_formats.cuh"
#include "lowlatency/low_latency_groups.cuh"
#include "lowlatency/low_latency_publish.cuh"

// A piece of a token to be sent: lane l has the experts of choices l and l + 32.
struct SendItem {
  u32 unit;
  u32 token;
  u32 piece;
  i64 experts[2];
  uint4 x[VECTORS];

  // The first item of this warp; nothing is loaded if there is none.
  __device__ __forceinline__ void load(const LowLatencyParameters& p, u32 number) {
    u32 pieces = pieces_of(p);
    unit = number;
    token = unit / pieces;
    piece = unit - token * pieces;
    if (!there(p)) {
      return;
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 k = i * 32 + lane_id();
      experts[i] = k < p.top_k ? id_of(p, (u64)token * p.top_k + k) : -1;
    }
    load_piece(x, p.x + (u64)token * p.hidden * 2, piece, (u32)p.hidden);
  }

  __device__ __forceinline__ bool there(const LowLatencyParameters& p) const {
    return token < p.tokens;
  }

  // Number of the item `step` items later. The wire carries whole rows, so with PUTS a warp takes
  // all pieces of a token.
  __device__ __forceinline__ u32 next(const LowLatencyParameters& p, u32 step) const {
    u32 pieces = pieces_of(p);
    return !PUTS ? unit + step : piece + 1 < pieces ? unit + 1 : unit + 1 + (step - 1) * pieces;
  }
};

// Ranks that a token goes to: lane l holds those of choices l and l + 32. The first choice of each
// rank leads.
struct Targets {
  u32 rank[2];
  u32 leaders[2];

  __device__ __forceinline__ Targets(const LowLatencyParameters& p, const Sources& sources,
                                     const SendItem& item) {
    rank[1] = NO_RANK;
    leaders[1] = 0;
    find<0>(p, sources, item);
    if (p.top_k > 32) {
      find<1>(p, sources, item);
    }
  }

  template <u32 ROUND>
  __device__ __forceinline__ void find(const LowLatencyParameters& p, const Sources& sources,
                                       const SendItem& item) {
    u32 r = sources.rank_of(p, item.experts[ROUND]);
    u32 same = __match_any_sync(0xffffffff, r);
    bool leads = r != NO_RANK && (u32)__ffs(same) == lane_id() + 1;
    if (ROUND == 1) {
      for (u32 i = 0; i < 32; i++) {
        u32 other = __shfl_sync(0xffffffff, rank[0], i);
        leads = leads && other != r;
      }
    }
    rank[ROUND] = r;
    leaders[ROUND] = __ballot_sync(0xffffffff, leads);
  }

  __device__ __forceinline__ bool leads(u32 round) const {
    return leaders[round] >> lane_id() & 1;
  }

  // Calls the action for each rank in turn; the whole warp.
  template <class Action>
  __device__ __forceinline__ void each(Action action) const {
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      for (u32 rest = leaders[i]; rest != 0; rest &= rest - 1) {
        action(__shfl_sync(0xffffffff, rank[i], __ffs(rest) - 1));
      }
    }
  }

  __device__ __forceinline__ u32 count() const { return __popc(leaders[0]) + __popc(leaders[1]); }
};

// A piece for internode ranks, PUTS: stored to the shadow and, if it is the last one, put to them.
template <class Format>
__device__ __forceinline__ void put_token(const Operation& op, const Targets& targets,
                                           const Format& encoded, u32 token, u32 piece) {
  const LowLatencyParameters& p = op.p;
  bool mine[2] = {targets.leads(0) && op.is_internode(targets.rank[0]),
                  targets.leads(1) && op.is_internode(targets.rank[1])};
  if (!__any_sync(0xffffffff, mine[0] || mine[1])) {
    return;
  }
  if (p.masking) {
    targets.each([&](u32 r) {
      if (op.is_internode(r)) {
        encoded.store(p.puts->staging + staging_row(op, dispatch_shadow(op, r), token), piece, p);
      }
    });
  } else {
    encoded.store(p.puts->staging + staging_row(op, 0, token), piece, p);
  }
  if (piece + 1 < pieces_of(p)) {
    return;
  }
  __syncwarp();
  // Not unrolled with a library, so that its calls are compiled once: values held across them need
  // registers.
#pragma unroll (CALLS_LIBRARY ? 1 : 2)
  for (u32 i = 0; i < 2; i++) {
    u32 rank = i == 0 ? targets.rank[0] : targets.rank[1];
    u64 slot = op.token_slot((u32)p.rank, token);
    u64 target = (u64)(op.row_of_slot(nullptr, rank, (u32)p.rank, slot, token) - (char*)nullptr);
    put_rows(op, i == 0 ? mine[0] : mine[1], rank, staging_row(op, dispatch_shadow(op, rank), token), target,
              multiple_of_16(p.row_bytes + p.scale_bytes));
  }
}

// Sends this item and every `step`th after it. `warps` of the block send or publish.
template <class Format>
__device__ __forceinline__ void send_rows(const Operation& op, const Sources& sources, SendItem& item,
                                          u32 step, u32 warps) {
  const LowLatencyParameters& p = op.p;
  u32 sent = 0;
  GroupProgress<MAPPED> groups(warps);
  while (item.there(p)) {
    u32 token = item.token;
    groups.reach(token / tokens_of_group(op));
    u32 piece = item.piece;
    Targets targets(p, sources, item);
    Format encoded;
    encoded.encode(item.x, p);
    u64 slot = op.token_slot((u32)p.rank, token);
    if constexpr (LL_PACKETS) {
      LlPacketWriter<typename Format::Vector> packets(op, encoded.values, encoded.scale_word());
      u32 bytes = bytes_from(p, piece, Format::VALUE_BITS);
      targets.each([&](u32 r) {
        packets.store(packet_piece<Format::VECTORS_OF_16>(op, sources.areas[r], slot, piece), bytes);
      });
    } else {
      targets.each([&](u32 r) {
        if (!op.uses_puts(r)) {
          encoded.store(op.row_of_slot(sources.areas[r], r, (u32)p.rank, slot, token), piece, p);
        }
      });
    }
    if constexpr (PUTS) {
      put_token(op, targets, encoded, token, piece);
    }
    __syncwarp();
    // The rows have time to arrive while the next item is being loaded.
    item.load(p, item.next(p, step));
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      if (!LL_PACKETS && targets.leads(i) && !op.uses_groups(targets.rank[i])) {
        char* area = sources.areas[targets.rank[i]];
        store_release_system(op.row_flag(area, (u32)p.rank, token, piece), op.number);
      }
    }
    sent += piece == 0 ? targets.count() : 0;
  }
  groups.reach(groups_of(op, (u32)p.tokens));
  if (is_first_lane() && sent > 0) {
    atomicAdd(&p.control->rows_sent, (u64)sent);
    atomicAdd(&p.control->payload_bytes, sent * (p.row_bytes + p.scale_bytes));
  }
}
