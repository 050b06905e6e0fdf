// Source and destination of each row of an internode combine: as return_layout.cuh, but rows of
// ranks of other nodes go to the rail through which the tokens arrived.
//
// A return buffer has sections: section 0 holds the rows of this rank, section 1 + g those of its
// g-th sender. Within a section, rows are in order of the ranks of this node; sections are
// contiguous. A section has words for the groups of each rank of the node. FLAT: rows that this
// rank itself holds have a place there too, but stay in the caller's memory.
#pragma once
#include "internode/internode_schedule.cuh"
#include "combine/return_layout.cuh"

// A block's view of the layout; shared memory.
struct InternodeReturnLayout {
  u32* push_first;  // [ranks] first row held here that belongs to the rank
  u32* push_rows;   // [ranks] number of rows to push
  u32* push_return_row;   // [ranks] first of these rows in the target's return buffer
  u32* targets;     // [ranks] rank of this node that receives them
  u32* word_runs;      // [ranks] run of words in the target's region
  u32* node_rows;   // [ranks] rows of the rank that ranks of this node hold
  u32* first;       // [sections, node_ranks] first slot, at a rank of the node, of the rows of the
                    // section's rank
  u32* section_row;        // [sections, node_ranks] first of these rows in this rank's return
                           // buffer
  u32 node_ranks;         // number of ranks of this node

  static constexpr u32 ARRAYS = 6;
  static constexpr u32 ROWS = 2;

  // A summing warp waits for the rows of a late rank at the same time as a pushing warp for the rank.
  static constexpr bool WITNESSES_ENTRIES = false;

  __device__ __forceinline__ InternodeReturnLayout(u32* words, u64 ranks, const InternodeWorld& world)
      : push_first(words),
        push_rows(words + ranks),
        push_return_row(words + 2 * ranks),
        targets(words + 3 * ranks),
        word_runs(words + 4 * ranks),
        node_rows(words + 5 * ranks),
        first(words + 6 * ranks),
        section_row(first + (1 + world.partners) * (world.end - world.first)),
        node_ranks((u32)(world.end - world.first)) {}

  // The rank of this node that receives the tokens of `rank`: see org.ep4j.engine.host.Rails.
  static __device__ __forceinline__ u32 rail_here(const CombineParameters& p, const InternodeWorld& world,
                                                  u32 rank) {
    u32 index = 0;
    for (u32 r = 0; r < rank; r++) {
      index += world.node_of[r] == world.node_of[rank];
    }
    u32 live = 0;
    for (u32 r = (u32)world.first; r < world.end; r++) {
      live += p.peers[r] != nullptr;
    }
    index %= live;
    u32 rail = (u32)world.first;
    while (p.peers[rail] == nullptr || index-- > 0) {
      rail++;
    }
    return rail;
  }

  // All threads.
  __device__ __forceinline__ void fill(const CombineParameters& p, const InternodeWorld& world,
                                       const ChunkSchedule& schedule) const {
    const u32* matrix = p.matrix;
    u32 ranks = (u32)p.ranks;
    u32 sections = (1 + (u32)schedule.counts[1]) * node_ranks;
    for (u32 i = threadIdx.x; i < sections; i += blockDim.x) {
      first[i] = 0;
    }
    if (warp_id() == (blockDim.x >> 5) - 1) {
      u32 limit = matrix_row(p, ROW_LIMITS)[p.rank];
      scan_loaded(
          ranks, [&](u32 s) { return matrix[s * ranks + p.rank]; },
          [&](u32 s, u32 before, u32 rows) {
            push_first[s] = before;
            push_rows[s] = accepted_rows(before, rows, limit);
          });
    }
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      targets[r] = is_intranode(world, r) ? r : rail_here(p, world, r);
      u32 all = 0;
      u32 earlier = 0;
      for (u32 h = (u32)world.first; h < world.end; h++) {
        u32 rows = p.matrix[r * p.ranks + h];
        all += rows;
        earlier += h < p.rank ? rows : 0;
      }
      node_rows[r] = all;
      push_return_row[r] = earlier;
    }
    __syncthreads();
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      if (sums_in_place(p) && targets[r] == p.rank) {
        push_rows[r] = 0;
      }
      u32 number = 0;
      if (!is_intranode(world, r)) {
        number = 1;
        push_return_row[r] += node_rows[targets[r]];
        for (u32 s = 0; s < r; s++) {
          if (!is_intranode(world, s) && targets[s] == targets[r] && world.node_of[s] != NO_NODE) {
            push_return_row[r] += node_rows[s];
            number++;
          }
        }
      }
      word_runs[r] = number * node_ranks + (u32)(p.rank - world.first);
    }
    // The rows of the sources before the owner of each section.
    for_each_loaded(
        sections * ranks, threadIdx.x, blockDim.x,
        [&](u32 i) {
          u32 section = i / ranks;
          u32 source = i % ranks;
          bool before = source < owner(p, world, schedule, section / node_ranks);
          return before ? matrix[source * ranks + world.first + section % node_ranks] : 0;
        },
        [&](u32 i, u32 rows) { atomicAdd(&first[i / ranks], rows); });
    for (u32 i = threadIdx.x; i < sections; i += blockDim.x) {
      u32 number = i / node_ranks;
      u32 holder = (u32)world.first + i - number * node_ranks;
      u32 source = owner(p, world, schedule, number);
      u32 at = 0;
      for (u32 n = 0; n < number; n++) {
        at += node_rows[owner(p, world, schedule, n)];
      }
      for (u32 h = (u32)world.first; h < holder; h++) {
        at += p.matrix[source * p.ranks + h];
      }
      section_row[i] = at;
    }
    __syncthreads();
  }

  // As in ReturnLayout, but this rank is included: some of its rows may be pushed.
  __device__ __forceinline__ u32 receivers(const CombineParameters& p) const { return (u32)p.ranks; }

  // Target rank and words, as in ReturnLayout.
  __device__ __forceinline__ u32 target(u32 rank) const { return targets[rank]; }
  __device__ __forceinline__ u64 words(const CombineParameters& p, u32 rank) const {
    return word_runs[rank] * p.group_words;
  }

  // All lanes: waits for the rows of the tokens from `first` to `end`, one token a lane; their
  // routes begin at `routes`. `witness`: of the waits for the first token. Each word is acquired separately: a fence would wait for this GPU's
  // writes to the host.
  __device__ __forceinline__ bool await(const CombineParameters& p, const InternodeWorld& world,
                                        const WaitContext& w, u32 number, const u64* routes, u64 first,
                                        u64 end, bool witness) const {
    bool there = true;
    const u64* mine = routes + (first + lane_id()) * p.top_k;
    for (u32 k = 0; first + lane_id() < end && there && k < p.top_k; k++) {
      u64 route = mine[k];
      if (route != NO_ROUTE && is_intranode(world, (u32)(route >> 32)) && !is_local_input(p, route)) {
        there = wait_epoch(w, word(p, world, number, route), PHASE_ROWS, route >> 32, witness && is_first_lane());
      }
    }
    there = __all_sync(0xffffffff, there);
    __syncwarp();
    return there;
  }

  // The row of a route to a rank of this node.
  __device__ __forceinline__ const char* find(const CombineParameters& p, const InternodeWorld& world,
                                              u32 number, u64 route, u32 element_bytes) const {
    if (is_local_input(p, route)) {
      return input_row(p, (u32)route, element_bytes);
    }
    u32 i = section_index(world, number, route);
    u32 row = (u32)route - first[i];
    return p.peers[p.rank] + p.return_offset + (u64)(section_row[i] + row) * p.return_row_bytes;
  }

 private:
  __device__ __forceinline__ u32 section_index(const InternodeWorld& world, u32 number, u64 route) const {
    return number * node_ranks + (u32)(route >> 32) - (u32)world.first;
  }

  __device__ __forceinline__ const u64* word(const CombineParameters& p, const InternodeWorld& world,
                                             u32 number, u64 route) const {
    u32 i = section_index(world, number, route);
    return group_words(p, (u32)p.rank) + i * p.group_words + ((u32)route - first[i]) / GROUP;
  }

  static __device__ __forceinline__ u32 owner(const CombineParameters& p, const InternodeWorld& world,
                                              const ChunkSchedule& schedule, u32 number) {
    return number == 0 ? (u32)p.rank : (u32)world.partner[schedule.senders[number - 1]].rank;
  }
};

// The records of a combine slot: for each token of the chunk that has rows in the node, in token
// order, its sum there, or all its rows; the weights follow each row. Each record is aligned to
// SLOT_LINE.
struct ReturnRecordLayout {
  u32 weights;
  u32 bytes;

  __device__ __forceinline__ explicit ReturnRecordLayout(const CombineParameters& p)
      : weights((u32)p.return_row_bytes),
        bytes(whole_lines(weights + (carries_weights(p) ? (u32)p.top_k * 4 : 0))) {}

  static __device__ __forceinline__ bool carries_weights(const CombineParameters& p) {
    return p.weights != nullptr && p.column == 0;
  }
};
