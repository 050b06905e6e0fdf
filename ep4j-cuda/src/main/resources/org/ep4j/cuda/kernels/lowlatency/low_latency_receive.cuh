// The warps of a low-latency dispatch that copy arriving pieces to the rows of their experts.
#pragma once
#include "lowlatency/low_latency_formats.cuh"
#include "lowlatency/low_latency_routing.cuh"

// A piece of an arriving token, and the words of it as first read: lane l has the entries of
// choices l and l + 32.
struct ArrivingPiece {
  u32 source;
  u32 token;
  u32 piece;
  bool valid;
  u64 entries[2];
  u64 flag;

  // Takes the next piece of this block, which has every `blocks`th up to `end`, and issues its
  // first loads.
  __device__ __forceinline__ void take(const Operation& op, const Sources& sources, u32 end, u32 block,
                                       u32 blocks) {
    const LowLatencyParameters& p = op.p;
    u32 pieces = pieces_of(p);
    u32 ranks = (u32)p.ranks;
    u32 unit;
    do {
      u32 number = is_first_lane() ? atomicAdd(sources.taken, 1u) : 0;
      unit = __shfl_sync(0xffffffff, number, 0) * blocks + block;
      u32 row = unit / pieces;
      piece = unit - row * pieces;
      token = row / ranks;
      source = row - token * ranks;
      valid = unit < end && token < sources.tokens[source];
    } while (!valid && unit < end);
    if (!valid) {
      return;
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 k = i * 32 + lane_id();
      bool asks = k < sources.choices[source];
      entries[i] = asks ? load_relaxed_system(op.entries(op.own, source, token) + k) : 0;
    }
    flag = LL_PACKETS || op.uses_groups(source)
               ? 0
               : load_acquire_system(op.row_flag(op.own, source, token, piece));
  }
};

// Rows here of one token of one source: lane l has those of choices l and l + 32. RANK_MAJOR: a
// single row, the same for all choices other than NO_ENTRY.
struct LocalRows {
  u32 row[2];
  u32 local[2];  // expert
  u32 lanes[2];  // choices whose rows are stored

  __device__ __forceinline__ LocalRows(const Operation& op, const Sources& sources,
                                    const ArrivingPiece& arrival) {
    row[1] = NO_ENTRY;
    lanes[1] = 0;
    find<0>(op, sources, arrival);
    if (sources.choices[arrival.source] > 32) {
      find<1>(op, sources, arrival);
    }
    if (RANK_MAJOR) {
      lanes[1] = lanes[0] != 0 ? 0 : lanes[1] & -lanes[1];
      lanes[0] &= -lanes[0];
    }
  }

  template <u32 ROUND>
  __device__ __forceinline__ void find(const Operation& op, const Sources& sources,
                                       const ArrivingPiece& arrival) {
    u32 source = arrival.source;
    u32 k = ROUND * 32 + lane_id();
    bool asks = k < sources.choices[source];
    const u64* at = op.entries(op.own, source, arrival.token) + k;
    u32 entry = NO_ENTRY;
    bool there = !asks || await_value(op, at, source, PHASE_COUNTS | IN_OWN_PART, entry, arrival.entries[ROUND]);
    entry = asks && there ? entry : NO_ENTRY;
    local[ROUND] = entry >> 16;
    u32 group = RANK_MAJOR ? source : local[ROUND];
    row[ROUND] = entry == NO_ENTRY ? NO_ENTRY : group * capacity_of(op.p) + (entry & 0xffff);
    if (!RANK_MAJOR && entry != NO_ENTRY) {
      row[ROUND] += sources.first[group * sources.stride + source];
    }
    lanes[ROUND] = __ballot_sync(0xffffffff, entry != NO_ENTRY);
  }

  __device__ __forceinline__ bool any() const { return (lanes[0] | lanes[1]) != 0; }

  // Saves the rows for the caller and the combine.
  __device__ __forceinline__ void save(const Operation& op, const Sources& sources, u32 source,
                                       u32 token) const {
    u32* choice_rows = op.p.choice_rows + op.token_slot(source, token) * op.p.max_choices;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 k = i * 32 + lane_id();
      if (k < sources.choices[source]) {
        choice_rows[k] = row[i];
        if (row[i] != NO_ENTRY) {
          op.p.source_tokens[row[i]] = (int)token;
          if (DELIVERS_WEIGHTS && !RANK_MAJOR && (op.p.kind & KIND_WEIGHTED)) {
            op.p.row_weights[row[i]] = weight_of(op, source, token, k, true);
          }
        }
      }
    }
    if (RANK_MAJOR && any()) {
      save_choices(op, sources, source, token);
    }
  }

 private:
  // The weight of a choice, once its source has published it; 0 if the choice is not for this rank.
  static __device__ __forceinline__ float weight_of(const Operation& op, u32 source, u32 token, u32 k,
                                                    bool here) {
    const u64* word = op.weights(op.own, source, token) + k;
    u32 weight = 0;
    if (here) {
      await_value(op, word, source, PHASE_COUNTS | IN_OWN_PART, weight, poll_word<WORD_TAGGED>(word));
    }
    return __uint_as_float(weight);
  }

  // RANK_MAJOR: the row's choices, for the caller.
  __device__ __forceinline__ void save_choices(const Operation& op, const Sources& sources, u32 source,
                                               u32 token) const {
    const LowLatencyParameters& p = op.p;
    u32 at = lanes[0] != 0 ? __shfl_sync(0xffffffff, row[0], __ffs(lanes[0]) - 1)
                           : __shfl_sync(0xffffffff, row[1], __ffs(lanes[1]) - 1);
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 k = i * 32 + lane_id();
      if (k < sources.choices[source]) {
        bool here = row[i] != NO_ENTRY;
        u64 slot = (u64)at * p.top_k + k;
        p.row_choices[slot] = here ? (i64)local[i] : -1;
        if (p.kind & KIND_WEIGHTED) {
          p.row_weights[slot] = weight_of(op, source, token, k, here);
        }
      }
    }
  }
};

// Stores four bytes of the scales of a row: word `word`.
template <class Format>
__device__ __forceinline__ void put_scales(const LowLatencyParameters& p, u32 row, u32 word,
                                           u32 scales) {
  if (p.scale_columns == 0) {
    *(u32*)(p.scales + row * p.scale_bytes + word * 4) = scales;
    return;
  }
  u32 group = row / capacity_of(p);
  u32 slot = row - group * capacity_of(p);
  if constexpr (Format::VALUE_BITS == 8) {
    ((u32*)p.scales)[(group * (p.scale_bytes / 4) + word) * p.scale_columns + slot] = scales;
  } else {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u64 column = group * p.scale_bytes + word * 4 + i;
      p.scales[column * p.scale_columns + slot] = (char)(scales >> (8 * i));
    }
  }
}

// A piece of an arrived row, to be stored to its rows.
template <class Format>
struct ReceivedPiece {
  static constexpr u32 LOADS = Format::VECTORS_OF_16;
  uint4 held[LOADS];
  u32 first;  // first byte of the row
  u32 word;   // word of the scales
  u32 scale;
  bool scaled;

  // Takes the values of packets that have arrived.
  __device__ __forceinline__ void take(const LowLatencyParameters& p, const ArrivingPiece& arrival,
                                       const LlPacketReader<LOADS, LOADS>& reader) {
    locate(p, arrival);
#pragma unroll
    for (u32 i = 0; i < LOADS; i++) {
      held[i] = reader.held[i];
    }
    scale = reader.scales();
  }

  __device__ __forceinline__ void load(const Operation& op, const ArrivingPiece& arrival) {
    const LowLatencyParameters& p = op.p;
    u32 source = arrival.source;
    const char* from = op.row_of_slot(op.from(source), source, source, op.token_slot(source, arrival.token), arrival.token);
    locate(p, arrival);
#pragma unroll
    for (u32 i = 0; i < LOADS; i++) {
      if (first + i * 512 < p.row_bytes) {
        held[i] = load_row(from + first + i * 512);
      }
    }
    scale = scaled ? __ldcg((const u32*)(from + p.row_bytes) + word) : 0;
  }

  __device__ __forceinline__ void store(const LowLatencyParameters& p, const LocalRows& local_rows) const {
#pragma unroll
    for (u32 j = 0; j < 2; j++) {
      for (u32 rest = local_rows.lanes[j]; rest != 0; rest &= rest - 1) {
        u64 row = __shfl_sync(0xffffffff, local_rows.row[j], __ffs(rest) - 1);
        char* to = p.rows + row * p.row_bytes;
#pragma unroll
        for (u32 i = 0; i < LOADS; i++) {
          if (first + i * 512 < p.row_bytes) {
            *(uint4*)(to + first + i * 512) = held[i];
          }
        }
        if (scaled) {
          put_scales<Format>(p, (u32)row, word, scale);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void locate(const LowLatencyParameters& p, const ArrivingPiece& arrival) {
    first = arrival.piece * LOADS * 512 + lane_id() * 16;
    u32 words = Format::scale_words(p);
    word = arrival.piece * words + lane_id();
    scaled = lane_id() < words && word * 4 < p.scale_bytes;
  }
};

// A piece that arrives as packets, loaded before it is known whether it is for this rank.
template <class Format>
struct PacketPrefetch {
  static constexpr u32 LOADS = Format::VECTORS_OF_16;
  LlPacketReader<LOADS, LOADS> reader;

  static __device__ __forceinline__ const char* piece(const Operation& op, const ArrivingPiece& arrival) {
    return packet_piece<LOADS>(op, op.own, op.token_slot(arrival.source, arrival.token), arrival.piece);
  }

  __device__ __forceinline__ void start(const Operation& op, const ArrivingPiece& arrival) {
    if (LL_PACKETS && arrival.valid) {
      reader.load(piece(op, arrival), 0, bytes_from(op.p, arrival.piece, Format::VALUE_BITS));
    }
  }

  __device__ __forceinline__ bool await(const Operation& op, const ArrivingPiece& arrival) {
    return reader.await(op, arrival.source, piece(op, arrival), 0,
                       bytes_from(op.p, arrival.piece, Format::VALUE_BITS), is_row_witness());
  }
};

// All warps that call this share the pieces of this block.
template <class Format>
__device__ __forceinline__ void receive_rows(const Operation& op, const Sources& sources, u32 block,
                                             u32 blocks) {
  const LowLatencyParameters& p = op.p;
  u32 largest = 0;
  for (u32 s = 0; s < p.ranks; s++) {
    largest = max(largest, sources.tokens[s]);
  }
  u32 end = largest * (u32)p.ranks * pieces_of(p);
  u32 received = 0;
  ArrivingPiece next;
  PacketPrefetch<Format> packets;
  next.take(op, sources, end, block, blocks);
  packets.start(op, next);
  while (next.valid) {
    ArrivingPiece now = next;
    LocalRows local_rows(op, sources, now);
    if (now.piece == 0) {
      local_rows.save(op, sources, now.source, now.token);
    }
    const u64* flag_at = op.row_flag(op.own, now.source, now.token, now.piece);
    bool there = local_rows.any();
    if constexpr (INTERNODE) {
      there = there && op.uses_groups(now.source)
                  ? await_group(op, now.source, now.token)
                  : there && await_flag(op, flag_at, now.source, now.flag, is_row_witness());
    } else {
      there = there && (LL_PACKETS ? packets.await(op, now) : await_flag(op, flag_at, now.source, now.flag, is_row_witness()));
    }
    there = __all_sync(0xffffffff, there);
    ReceivedPiece<Format> arrived;
    if (LL_PACKETS && there) {
      arrived.take(p, now, packets.reader);
    } else if (there) {
      arrived.load(op, now);
    }
    // Prefetches the next piece while this row is being loaded.
    next.take(op, sources, end, block, blocks);
    packets.start(op, next);
    if (there) {
      arrived.store(p, local_rows);
    }
    received += now.piece == 0 && local_rows.any();
  }
  if (is_first_lane() && received > 0) {
    atomicAdd(&p.control->rows_received, (u64)received);
  }
}
