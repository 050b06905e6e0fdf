// Low-latency dispatch in one kernel; see low_latency.cuh for the words.
//
// Block 0 tells the peers the routing. The warps of the other blocks take pieces of tokens, encode
// them and write them once to every rank that owns one of the token's experts. Then all warps take
// pieces of arriving rows and put each where the rows of its local experts are wanted. With a hook
// the two halves are two launches.
#include "low_latency_formats.cuh"
#include "low_latency_routing.cuh"

// Ranks that a token goes to: lane l holds those of choices l and l + 32, if they lead.
struct Targets {
  u32 rank[2];
  u32 leaders[2];

  __device__ __forceinline__ Targets(const LowLatencyParameters& p, const Sources& sources, u32 token) {
    rank[1] = NOBODY;
    leaders[1] = 0;
    find<0>(p, sources, token);
    if (p.top_k > 32) {
      find<1>(p, sources, token);
    }
  }

  template <u32 ROUND>
  __device__ __forceinline__ void find(const LowLatencyParameters& p, const Sources& sources,
                                       u32 token) {
    u32 k = ROUND * 32 + lane_id();
    u32 r = k < p.top_k ? sources.rank_of(p, id_of(p, (u64)token * p.top_k + k)) : NOBODY;
    u32 same = __match_any_sync(0xffffffff, r);
    bool leads = r != NOBODY && (u32)__ffs(same) == lane_id() + 1;
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

  __device__ __forceinline__ u32 count() const { return __popc(leaders[0]) + __popc(leaders[1]); }
};

template <class Format>
__device__ __forceinline__ void send_rows(const Operation& op, const Sources& sources, u32 block,
                                          u32 blocks) {
  const LowLatencyParameters& p = op.p;
  u32 pieces = pieces_of(p);
  u32 sent = 0;
  for (u32 unit = warp_id() * blocks + block; unit < p.tokens * pieces; unit += blocks * WARPS) {
    u32 token = unit / pieces;
    u32 piece = unit - token * pieces;
    Targets targets(p, sources, token);
    uint4 x[VECTORS];
    load_piece(x, p.x + (u64)token * p.hidden * 2, piece, (u32)p.hidden);
    Format encoded;
    encoded.encode(x, p);
    u64 slot = op.token_slot((u32)p.rank, token);
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      for (u32 rest = targets.leaders[i]; rest != 0; rest &= rest - 1) {
        u32 r = __shfl_sync(0xffffffff, targets.rank[i], __ffs(rest) - 1);
        encoded.store(op.row(sources.areas[r], slot), piece, p);
      }
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      if (targets.leads(i)) {
        char* area = sources.areas[targets.rank[i]];
        store_release_system(op.row_flag(area, (u32)p.rank, token, piece), op.number);
      }
    }
    sent += piece == 0 ? targets.count() : 0;
  }
  if (lane_id() == 0 && sent > 0) {
    atomicAdd(&p.control->rows_sent, (u64)sent);
    atomicAdd(&p.control->payload_bytes, sent * (p.row_bytes + p.scale_bytes));
  }
}

// Rows here that one token of one source goes to: lane l holds those of choices l and l + 32.
struct Places {
  u32 row[2];
  u32 lanes[2];

  __device__ __forceinline__ Places(const Operation& op, const Sources& sources, u32 source,
                                    u32 token, const u64* flag_at, u64& flag) {
    row[1] = NO_ENTRY;
    lanes[1] = 0;
    find<0>(op, sources, source, token, flag_at, flag);
    if (sources.choices[source] > 32) {
      find<1>(op, sources, source, token, flag_at, flag);
    }
  }

  template <u32 ROUND>
  __device__ __forceinline__ void find(const Operation& op, const Sources& sources, u32 source,
                                       u32 token, const u64* flag_at, u64& flag) {
    u32 k = ROUND * 32 + lane_id();
    bool asks = k < sources.choices[source];
    const u64* at = op.entries(op.own, source, token) + (asks ? k : 0);
    u64 word = load_relaxed_system(at);
    flag = load_acquire_system(flag_at);
    u32 entry = (u32)word;
    bool there = tag_is(word, op.number) || !asks || await_value(op, at, source, PHASE_COUNTS, entry);
    entry = asks && there ? entry : NO_ENTRY;
    u32 local = entry >> 16;
    row[ROUND] = entry == NO_ENTRY ? NO_ENTRY
                                   : local * capacity_of(op.p) +
                                         sources.first[local * sources.stride + source] +
                                         (entry & 0xffff);
    lanes[ROUND] = __ballot_sync(0xffffffff, entry != NO_ENTRY);
  }

  __device__ __forceinline__ bool any() const { return (lanes[0] | lanes[1]) != 0; }

  // For the caller and the combine.
  __device__ __forceinline__ void keep(const Operation& op, const Sources& sources, u32 source,
                                       u32 token) const {
    u32* places = op.p.places + op.token_slot(source, token) * op.p.most_choices;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      u32 k = i * 32 + lane_id();
      if (k < sources.choices[source]) {
        places[k] = row[i];
        if (row[i] != NO_ENTRY) {
          op.p.source_tokens[row[i]] = (int)token;
        }
      }
    }
  }
};

// Four bytes of the scales of a row: number `word` of them.
template <class Format>
__device__ __forceinline__ void put_scales(const LowLatencyParameters& p, u32 row, u32 word,
                                           u32 scales) {
  if (p.scale_columns == 0) {
    *(u32*)(p.scales + row * p.scale_bytes + word * 4) = scales;
    return;
  }
  u32 expert = row / capacity_of(p);
  u32 slot = row - expert * capacity_of(p);
  if constexpr (Format::VALUE_BITS == 8) {
    ((u32*)p.scales)[(expert * (p.scale_bytes / 4) + word) * p.scale_columns + slot] = scales;
  } else {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u64 column = expert * p.scale_bytes + word * 4 + i;
      p.scales[column * p.scale_columns + slot] = (char)(scales >> (8 * i));
    }
  }
}

// Copies a piece of an arrived row to all its places.
template <class Format>
__device__ __forceinline__ void expand(const Operation& op, const Places& places, u32 source,
                                       u32 token, u32 piece) {
  constexpr u32 LOADS = PIECE * Format::VALUE_BITS / 8 / 512;
  const LowLatencyParameters& p = op.p;
  const char* from = op.row(op.own, op.token_slot(source, token));
  uint4 held[LOADS];
  u32 first = piece * LOADS * 512 + lane_id() * 16;
#pragma unroll
  for (u32 i = 0; i < LOADS; i++) {
    if (first + i * 512 < p.row_bytes) {
      held[i] = load_row(from + first + i * 512);
    }
  }
  u32 words = Format::scale_words(p);
  u32 word = piece * words + lane_id();
  bool scaled = lane_id() < words && word * 4 < p.scale_bytes;
  u32 scale = scaled ? __ldcg((const u32*)(from + p.row_bytes) + word) : 0;
#pragma unroll
  for (u32 j = 0; j < 2; j++) {
    for (u32 rest = places.lanes[j]; rest != 0; rest &= rest - 1) {
      u64 row = __shfl_sync(0xffffffff, places.row[j], __ffs(rest) - 1);
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

template <class Format>
__device__ __forceinline__ void receive_rows(const Operation& op, const Sources& sources, u32 block,
                                             u32 blocks) {
  const LowLatencyParameters& p = op.p;
  u32 ranks = (u32)p.ranks;
  u32 pieces = pieces_of(p);
  u32 most = 0;
  for (u32 s = 0; s < ranks; s++) {
    most = max(most, sources.tokens[s]);
  }
  u32 received = 0;
  for (u32 unit = warp_id() * blocks + block; unit < most * ranks * pieces; unit += blocks * WARPS) {
    u32 row = unit / pieces;
    u32 piece = unit - row * pieces;
    u32 token = row / ranks;
    u32 source = row - token * ranks;
    if (token >= sources.tokens[source]) {
      continue;
    }
    // Asked for together with the entries: most often it is there as well.
    const u64* flag_at = op.row_flag(op.own, source, token, piece);
    u64 flag;
    Places places(op, sources, source, token, flag_at, flag);
    if (piece == 0) {
      places.keep(op, sources, source, token);
    }
    if (!places.any()) {
      continue;
    }
    received += piece == 0;
    bool there = flag == op.number || await_flag(op, flag_at, source, flag);
    if (!__all_sync(0xffffffff, there)) {
      continue;
    }
    expand<Format>(op, places, source, token, piece);
  }
  if (lane_id() == 0 && received > 0) {
    atomicAdd(&p.control->rows_received, (u64)received);
  }
}

template <class Format>
__device__ __forceinline__ void dispatch(const LowLatencyParameters& p) {
  extern __shared__ __align__(16) char shared[];
  Operation op = operation_of(p);
  Sources sources(shared, p);
  if (p.phases & SENDING) {
    sources.load_owners(p);
  }
  if (!begin(op, sources.areas)) {
    return;
  }
  if (p.phases & SENDING) {
    if (blockIdx.x == 0) {
      tell_routing(op, sources, sources.first);
    }
    if (gridDim.x == 1) {
      send_rows<Format>(op, sources, 0, 1);
    } else if (blockIdx.x > 0) {
      send_rows<Format>(op, sources, blockIdx.x - 1, gridDim.x - 1);
    }
  }
  if (!(p.phases & RECEIVING)) {
    finish(op);
    return;
  }
  learn_routing(op, sources);
  if (!p.masking) {
    if (blockIdx.x == 0) {
      tell_caller(op, sources);
    }
    receive_rows<Format>(op, sources, blockIdx.x, gridDim.x);
    finish(op);
    return;
  }
  receive_rows<Format>(op, sources, blockIdx.x, gridDim.x);
  if (!is_last_block(op)) {
    return;
  }
  while (receive_again(op)) {
    look_around(op, sources.areas);
    learn_routing(op, sources);
    receive_rows<Format>(op, sources, 0, 1);
    __syncthreads();
  }
  tell_caller(op, sources);
  __syncthreads();
  if (warp_id() == 0) {
    end_operation(op);
  }
}

#define EP4J_LOW_LATENCY_DISPATCH(name, Format)              \
  extern "C" __global__ void __launch_bounds__(512, 1)       \
      name(const __grid_constant__ LowLatencyParameters p) { \
    dispatch<Format>(p);                                     \
  }

EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_bf16, Bf16Rows)
EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_fp8, Fp8Rows)
EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_nvfp4, Nvfp4Rows)
