// Where the rows of a combine across nodes go and come from: as homes.cuh, but rows of ranks of other
// nodes go to the rail through which they came.
//
// Home 0 of a rank takes its own rows, home 1 + g those of its g-th giver. In a home the rows of the
// ranks of this node lie in their order; homes follow one another. A home has words for the groups of
// each rank of the node. FLAT: what this rank itself holds has its place there, too, but stays where the
// caller gave it.
#pragma once
#include "far_streams.cuh"
#include "homes.cuh"

// What a block knows; shared memory.
struct FarHomes {
  u32* push_first;  // [ranks] first row held here that belongs to the rank
  u32* push_rows;   // [ranks] how many are pushed
  u32* push_home;   // [ranks] row of the target's home region where they begin
  u32* targets;     // [ranks] rank of this node to which they go
  u32* pushed;      // [ranks] run of words in the target's region
  u32* near_rows;   // [ranks] rows of the rank that ranks of this node hold
  u32* first;       // [homes, near] slot of a rank of the node where rows of the home's rank begin
  u32* home;        // [homes, near] row of this rank's home region where they begin
  u32 near;         // ranks of this node

  static constexpr u32 ARRAYS = 6;
  static constexpr u32 ROWS = 2;

  __device__ __forceinline__ FarHomes(u32* words, u64 ranks, const FarWorld& far)
      : push_first(words),
        push_rows(words + ranks),
        push_home(words + 2 * ranks),
        targets(words + 3 * ranks),
        pushed(words + 4 * ranks),
        near_rows(words + 5 * ranks),
        first(words + 6 * ranks),
        home(first + (1 + far.partners) * (far.end - far.first)),
        near((u32)(far.end - far.first)) {}

  // The rank of this node that takes what `rank` sends here: see org.ep4j.engine.host.Rails.
  static __device__ __forceinline__ u32 rail_here(const CombineParameters& p, const FarWorld& far,
                                                  u32 rank) {
    u32 place = 0;
    for (u32 r = 0; r < rank; r++) {
      place += far.node_of[r] == far.node_of[rank];
    }
    u32 live = 0;
    for (u32 r = (u32)far.first; r < far.end; r++) {
      live += p.peers[r] != nullptr;
    }
    place %= live;
    u32 rail = (u32)far.first;
    while (p.peers[rail] == nullptr || place-- > 0) {
      rail++;
    }
    return rail;
  }

  // All threads.
  __device__ __forceinline__ void fill(const CombineParameters& p, const FarWorld& far,
                                       const Streams& streams) const {
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      u32 before = 0;
      for (u32 s = 0; s < r; s++) {
        before += p.matrix[s * p.ranks + p.rank];
      }
      push_first[r] = before;
      targets[r] = is_near(far, r) ? r : rail_here(p, far, r);
      bool stays = keeps_own(p) && targets[r] == p.rank;
      push_rows[r] = stays ? 0 : rows_between(p, r, (u32)p.rank);
      u32 all = 0;
      u32 earlier = 0;
      for (u32 h = (u32)far.first; h < far.end; h++) {
        u32 rows = p.matrix[r * p.ranks + h];
        all += rows;
        earlier += h < p.rank ? rows : 0;
      }
      near_rows[r] = all;
      push_home[r] = earlier;
    }
    __syncthreads();
    for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
      u32 number = 0;
      if (!is_near(far, r)) {
        number = 1;
        push_home[r] += near_rows[targets[r]];
        for (u32 s = 0; s < r; s++) {
          if (!is_near(far, s) && targets[s] == targets[r] && far.node_of[s] != NO_NODE) {
            push_home[r] += near_rows[s];
            number++;
          }
        }
      }
      pushed[r] = number * near + (u32)(p.rank - far.first);
    }
    for (u32 i = threadIdx.x; i < (1 + streams.counts[1]) * near; i += blockDim.x) {
      u32 number = i / near;
      u32 holder = (u32)far.first + i - number * near;
      u32 source = owner(p, far, streams, number);
      u32 before = 0;
      for (u32 s = 0; s < source; s++) {
        before += p.matrix[s * p.ranks + holder];
      }
      first[i] = before;
      u32 at = 0;
      for (u32 n = 0; n < number; n++) {
        at += near_rows[owner(p, far, streams, n)];
      }
      for (u32 h = (u32)far.first; h < holder; h++) {
        at += p.matrix[source * p.ranks + h];
      }
      home[i] = at;
    }
    __syncthreads();
  }

  // As in Homes; what some of them take may stay here.
  __device__ __forceinline__ u32 takers(const CombineParameters& p) const { return (u32)p.ranks; }

  // The rank and the words to which rows go, as in Homes.
  __device__ __forceinline__ u32 target(u32 rank) const { return targets[rank]; }
  __device__ __forceinline__ u64 words(const CombineParameters& p, u32 rank) const {
    return pushed[rank] * p.group_words;
  }

  // All lanes: waits for the rows of tokens from `first` to `end`, a lane a token, whose ways begin at
  // `ways`. Each word is acquired: a fence would wait for what this GPU writes to the host.
  __device__ __forceinline__ bool await(const CombineParameters& p, const FarWorld& far,
                                        const Watch& w, u32 number, const u64* ways, u64 first,
                                        u64 end) const {
    bool there = true;
    const u64* mine = ways + (first + lane_id()) * p.top_k;
    for (u32 k = 0; first + lane_id() < end && there && k < p.top_k; k++) {
      u64 way = mine[k];
      if (way != NOWHERE && is_near(far, (u32)(way >> 32)) && !is_given(p, way)) {
        there = await_word(w, word(p, far, number, way), way >> 32);
      }
    }
    there = __all_sync(0xffffffff, there);
    __syncwarp();
    return there;
  }

  // The row of a way that leads to a rank of this node.
  __device__ __forceinline__ const char* find(const CombineParameters& p, const FarWorld& far,
                                              u32 number, u64 way, u32 element_bytes) const {
    if (is_given(p, way)) {
      return given_row(p, (u32)way, element_bytes);
    }
    u32 i = place(far, number, way);
    u32 row = (u32)way - first[i];
    return p.peers[p.rank] + p.home_offset + (u64)(home[i] + row) * p.home_row_bytes;
  }

 private:
  __device__ __forceinline__ u32 place(const FarWorld& far, u32 number, u64 way) const {
    return number * near + (u32)(way >> 32) - (u32)far.first;
  }

  __device__ __forceinline__ const u64* word(const CombineParameters& p, const FarWorld& far,
                                             u32 number, u64 way) const {
    u32 i = place(far, number, way);
    return group_words(p, (u32)p.rank) + i * p.group_words + ((u32)way - first[i]) / GROUP;
  }

  static __device__ __forceinline__ bool await_word(const Watch& w, const u64* at, u64 peer) {
    for (u32 polls = 1;; polls++) {
      u64 seen = load_acquire_system(at);
      if (seen >= w.epoch) {
        return true;
      }
      if ((polls & 0xff) == 0 && vain(w, polls, PHASE_ROWS, peer, w.epoch, seen)) {
        return false;
      }
    }
  }

  static __device__ __forceinline__ u32 owner(const CombineParameters& p, const FarWorld& far,
                                              const Streams& streams, u32 number) {
    return number == 0 ? (u32)p.rank : (u32)far.partner[streams.givers[number - 1]].rank;
  }
};

// What a slot of a combine holds: for each token of the chunk that has rows in the node, in their
// order, its sum there, or all its rows; the weights behind each row. Each begins at a line.
struct AnswerShape {
  u32 weights;
  u32 bytes;

  __device__ __forceinline__ explicit AnswerShape(const CombineParameters& p)
      : weights((u32)p.home_row_bytes),
        bytes(whole_lines(weights + (carries_weights(p) ? (u32)p.top_k * 4 : 0))) {}

  static __device__ __forceinline__ bool carries_weights(const CombineParameters& p) {
    return p.weights != nullptr && p.column == 0;
  }
};
