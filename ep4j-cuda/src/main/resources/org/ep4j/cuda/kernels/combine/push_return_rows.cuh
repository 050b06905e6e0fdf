// The warps of a combine that push rows into return buffers.
#pragma once
#include "common/convert.cuh"
#include "combine/return_layout.cuh"
#include "common/rows.cuh"
#include "combine/sums.cuh"

// The weights of a group of rows; all lanes.
template <class G>
__device__ __forceinline__ void push_weights(const CombineParameters& p, const G& g) {
  u32 k_count = (u32)p.top_k;
  float* destination = (float*)(p.peers[g.target()] + p.return_weights_offset) + g.return_row() * k_count;
  for (u32 i = lane_id(); i < g.rows() * k_count; i += 32) {
    u64 at = (u64)g.first_row() * k_count + i;
    destination[i] = p.slot_rows == nullptr ? p.weights[at]
                                  : input_weight(p, at / k_count, (u32)(at % k_count));
  }
}

// Adds the rows of FLAT row `flat` in expert order and writes the sum; all lanes. `rows` is shared
// memory of the warp, pointers_of_warp.
template <class T, class H, u32 ROWS>
__device__ __forceinline__ void push_partial(const CombineParameters& p, u64 flat, char* destination,
                                             const char** rows) {
  constexpr u32 E = T::ELEMENTS;
  constexpr u32 U = 2;
  __syncwarp();
  float* weights = weights_of(rows);
  int count = list_input_rows(p, flat, 16 / E, rows, weights);
  __syncwarp();
  for (u32 first = lane_id() * E; first < p.columns; first += 32 * E * U) {
    float sum[U][E] = {};
    add_input_rows<T, U, ROWS>(p, sum, rows, weights, count, first, (u32)p.columns);
#pragma unroll
    for (u32 u = 0; u < U; u++) {
      u32 at = first + u * 32 * E;
      if (at < p.columns) {
        if constexpr (H::ELEMENTS == E) {
          store_row(destination + at * (16 / E), round_vector<T>(sum[u]));
        } else {
          store_row(destination + at * 4, round_vector<Fp32>(sum[u]));
          store_row(destination + at * 4 + 16, round_vector<Fp32>(sum[u] + E / 2));
        }
      }
    }
  }
}

// Raises the word of a group after this warp has written the rows.
__device__ __forceinline__ void raise_group(const WaitContext& w, u64* word) {
  __syncwarp();
  if (is_first_lane()) {
    fence_proxy();
    store_release_system(word, w.epoch);
  }
}

// Waits until the rank has entered to which rows of G, RowGroups, are pushed; a whole warp.
template <class G>
__device__ __forceinline__ bool await_source(const CombineParameters& p, const WaitContext& w,
                                             u32 source) {
  const u64* ready = (const u64*)(p.peers[p.rank] + p.ready_offset) + source;
  bool witness = G::WITNESSES_ENTRIES && blockIdx.x == 0 && is_first_thread();
  bool there = wait_epoch(w, ready, PHASE_ENTER, source, witness);
  return __all_sync(0xffffffff, there);
}

// EXPERT_MAJOR, and every layout without a tensor memory accelerator.
template <class T, class H, class G>
__device__ __forceinline__ void push_sums(const CombineParameters& p, const WaitContext& w, G groups,
                                          const char** rows) {
  u64 row_bytes = p.hidden * (16 / T::ELEMENTS);
  while (groups.next()) {
    if (!await_source<G>(p, w, groups.target())) {
      return;
    }
    char* destination = p.peers[groups.target()] + p.return_offset;
    for (u32 i = 0; i < groups.rows(); i++) {
      u64 flat = groups.first_row() + i;
      char* to = destination + (groups.return_row() + i) * p.return_row_bytes;
      if (p.slot_rows != nullptr) {
        push_partial<T, H, G::ROWS>(p, flat, to, rows);
      } else {
        const char* from = p.y + flat * row_bytes + p.column * (16 / T::ELEMENTS);
        for (u32 at = lane_id() * 16; at < p.columns * (16 / T::ELEMENTS); at += 512) {
          store_row(to + at, load_row(from + at));
        }
      }
    }
    if (p.weights != nullptr && p.column == 0) {
      push_weights(p, groups);
    }
    raise_group(w, groups.word());
  }
}

#if EP4J_TMA
// Iterates over the pieces of the rows of a warp's groups.
template <class G>
struct Pieces {
  G groups;
  u32 row_bytes;
  u32 stage_bytes;
  u32 row = 0;
  u32 at = 0;
  bool some = false;

  __device__ __forceinline__ Pieces(const G& groups, u32 row_bytes, u32 stage_bytes)
      : groups(groups), row_bytes(row_bytes), stage_bytes(stage_bytes) {}

  // False at the end, also when called again.
  __device__ __forceinline__ bool next() {
    if (some) {
      at += stage_bytes;
      if (at < row_bytes) {
        return true;
      }
      at = 0;
      if (++row < groups.rows()) {
        return true;
      }
    }
    row = 0;
    some = groups.next();
    return some;
  }

  __device__ __forceinline__ u32 bytes() const { return min(stage_bytes, row_bytes - at); }

  __device__ __forceinline__ bool first_of_group() const { return row == 0 && at == 0; }

  __device__ __forceinline__ bool last_of_group() const {
    return row + 1 == groups.rows() && at + stage_bytes >= row_bytes;
  }
};

// FLAT: pushes rows unchanged. A group's word is raised two pieces later: by then its stores have
// most likely completed, so the warp does not wait for them.
template <class G>
__device__ __forceinline__ void push_rows(const CombineParameters& p, const WaitContext& w, G groups,
                                          Ring& ring, u32 element_bytes) {
  constexpr u32 NO_JOB = 0xffffffff;
  struct Piece {
    char* to;
    u64* word;  // to raise after this piece has been written, or null
    u32 bytes;   // 0: no piece
    u32 begins;  // job of the group whose first piece this is, or NO_JOB
  };
  u64 stride = p.hidden * element_bytes;
  const char* y = p.y + p.column * element_bytes;
  G started = groups;  // takes no groups; only decodes jobs that have been taken
  Pieces<G> work(groups, (u32)p.columns * element_bytes, ring.stage_bytes);
  Piece held[STAGES];  // loaded and not yet stored, oldest first
  u32 loaded = 0;
  auto load = [&](Piece& piece) {
    piece.bytes = 0;
    if (work.next()) {
      const G& g = work.groups;
      ring.load(loaded++, y + (g.first_row() + work.row) * stride + work.at, work.bytes());
      piece.to = p.peers[g.target()] + p.return_offset +
                 (g.return_row() + work.row) * p.return_row_bytes + work.at;
      piece.word = work.last_of_group() ? g.word() : nullptr;
      piece.bytes = work.bytes();
      piece.begins = work.first_of_group() ? g.job : NO_JOB;
    }
  };
#pragma unroll
  for (u32 i = 0; i + 1 < STAGES; i++) {
    load(held[i]);
  }
  u64* pending = nullptr;
  u32 pending_step = 0;
  bool there = true;
  for (u32 step = 0; held[0].bytes > 0; step++) {
    const char* stage = ring.arrived(step);
    if (held[0].begins != NO_JOB) {
      started.job = held[0].begins;
      started.find();
      // After a failed wait, only drain: loads in flight must not outlive the warp.
      there = there && await_source<G>(p, w, started.target());
      if (there && p.weights != nullptr && p.column == 0) {
        push_weights(p, started);
      }
    }
    if (there && is_first_lane()) {
      bulk_store(held[0].to, stage, held[0].bytes);
    }
    bulk_commit();
    if (pending != nullptr && step - pending_step >= 2) {
      bulk_wait<2>();
      raise_group(w, pending);
      pending = nullptr;
    }
    if (there && held[0].word != nullptr) {
      if (pending != nullptr) {
        bulk_wait<1>();
        raise_group(w, pending);
      }
      pending = held[0].word;
      pending_step = step;
    }
    bulk_wait_read<1>();
    __syncwarp();
    load(held[STAGES - 1]);
#pragma unroll
    for (u32 i = 0; i + 1 < STAGES; i++) {
      held[i] = held[i + 1];
    }
  }
  bulk_wait<0>();
  if (pending != nullptr) {
    raise_group(w, pending);
  }
}
#endif
