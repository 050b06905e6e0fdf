// Publishes the routing of a dispatch to the peers.
#pragma once
#include "lowlatency/low_latency_routing.cuh"

constexpr u32 NO_EXPERT = 0xffffffff;   // no choice
constexpr u32 BAD_EXPERT = 0xfffffffe;  // an expert that does not exist

__device__ __forceinline__ i64 id_of(const LowLatencyParameters& p, u64 at) {
  return p.wide_ids ? ((const i64*)p.ids)[at] : (i64)((const int*)p.ids)[at];
}

// A tile of tokens whose choices a team of block 0 publishes at once; shared memory.
struct RoutingTile {
  u32* bad;     // whether there are invalid choices
  u32* before;  // [groups] rows of earlier tiles
  u32* marks;   // [groups, words] bit t: token t of the tile has chosen the expert, or goes to the
                // rank
  u32* chosen;  // [tile_tokens, top_k] experts, BAD_EXPERT or NO_EXPERT
  u32 words;
  u32 groups;  // experts and, for RANK_MAJOR or puts, the ranks behind them
  u32 first;   // first token
  u32 tokens;

  __device__ __forceinline__ RoutingTile(const Sources& sources, const LowLatencyParameters& p)
      : bad(sources.end(p)),
        before(bad + 1),
        words(((u32)min(p.tile_tokens, p.tokens) + 31) / 32),
        groups((u32)(p.experts + (RANK_MAJOR || PUTS ? p.ranks : 0))),
        first(0),
        tokens((u32)min(p.tile_tokens, p.tokens)) {
    marks = before + groups;
    chosen = marks + groups * words;
  }

  // Reads the choices and clears the marks; a barrier must follow. Starts at the last thread.
  __device__ __forceinline__ void read(const LowLatencyParameters& p, Team team) const {
    u32 thread = team.threads() - 1 - team.thread();
    for (u32 i = thread; i < tokens * p.top_k; i += team.threads()) {
      i64 id = id_of(p, first * p.top_k + i);
      chosen[i] = id == -1 ? NO_EXPERT : id < 0 || id >= (i64)p.experts ? BAD_EXPERT : (u32)id;
    }
    for (u32 i = thread; i < groups * words; i += team.threads()) {
      marks[i] = 0;
    }
    for (u32 g = thread; first == 0 && g < groups; g += team.threads()) {
      before[g] = 0;
    }
    if (ask_anew(thread) == 0) {
      *bad = 0;
    }
  }

  // Saves the choices for the combine, and marks their experts.
  __device__ __forceinline__ void mark(const Operation& op, const Sources& sources, Team team) const {
    const LowLatencyParameters& p = op.p;
    for (u32 i = team.thread(); i < tokens * p.top_k; i += team.threads()) {
      u32 token = i / (u32)p.top_k;
      u32 k = i - token * (u32)p.top_k;
      u32 e = chosen[i];
      u32 rank = sources.rank_of(p, e);
      p.choices[op.choice_slot(first + token, k)] =
          pack_choice(rank, e < p.experts ? e : NO_EXPERT);
      if (e < p.experts) {
        u32 bit = 1u << token % 32;
        bool marked = (atomicOr(&marks[e * words + token / 32], bit) & bit) != 0;
        if ((RANK_MAJOR || PUTS) && rank != NO_RANK) {
          atomicOr(&marks[((u32)p.experts + rank) * words + token / 32], bit);
        }
        e = marked ? BAD_EXPERT : e;
      }
      if (e == BAD_EXPERT) {
        *bad = 1;
      }
    }
  }

  // Reports the invalid choices of this tile and treats them as no choice: experts that do not
  // exist, and duplicates of an earlier choice of the token.
  __device__ __forceinline__ void report_bad_choices(const Operation& op, Team team) const {
    const LowLatencyParameters& p = op.p;
    for (u32 i = team.thread(); i < tokens * p.top_k; i += team.threads()) {
      u32 token = i / (u32)p.top_k;
      u32 k = i - token * (u32)p.top_k;
      u64 state = chosen[i] == BAD_EXPERT ? STATE_NO_SUCH_EXPERT : 0;
      for (u32 j = i - k; j < i && chosen[i] != NO_EXPERT; j++) {
        state = chosen[j] == chosen[i] && state == 0 ? STATE_DUPLICATE : state;
      }
      if (state != 0) {
        // A later comparison with this choice also finds the first of its kind.
        chosen[i] = NO_EXPERT;
        p.choices[op.choice_slot(first + token, k)] = pack_choice(NO_RANK, -1);
        bad_routing(op.wait, state, first + token, k, (u64)id_of(p, first * p.top_k + i), p.experts);
      }
    }
  }

  // Publishes to each rank the rows of its experts and, RANK_MAJOR, of the rank itself; in the last
  // tile.
  __device__ __forceinline__ void publish_counts(const Operation& op, const Sources& sources,
                                              Team team) const {
    const LowLatencyParameters& p = op.p;
    for (u32 e = team.thread(); e < p.experts; e += team.threads()) {
      u32 rank = sources.rank_of(p, e);
      if (rank != NO_RANK) {
        u64* at = op.counts(sources.areas[rank], (u32)p.rank) + (sources.owners[e] & 0xffff);
        store_relaxed_system(at, tagged_word(op, count_of(p, rows_before(e, tokens))));
      }
    }
    for (u32 r = team.thread(); RANK_MAJOR && r < p.ranks; r += team.threads()) {
      if (sources.areas[r] != nullptr) {
        u64* at = op.counts(sources.areas[r], (u32)p.rank) + p.count_stride - 1;
        store_relaxed_system(at, tagged_word(op, count_of(p, rows_before((u32)p.experts + r, tokens))));
      }
    }
  }

  // Publishes to every rank the entry of each choice for it.
  __device__ __forceinline__ void publish_entries(const Operation& op, const Sources& sources,
                                               Team team) const {
    const LowLatencyParameters& p = op.p;
    for (u32 i = team.thread(); i < tokens * p.top_k; i += team.threads()) {
      u32 token = i / (u32)p.top_k;
      u32 e = chosen[i];
      u32 rank = sources.rank_of(p, e);
      u32 group = RANK_MAJOR ? (u32)p.experts + rank : e;
      u32 entry =
          rank == NO_RANK ? NO_ENTRY : sources.owners[e] << 16 | rows_before(group, token);
      if (DELIVERS_WEIGHTS && (p.kind & KIND_WEIGHTED) && rank != NO_RANK) {
        u64* at = op.weights(sources.areas[rank], (u32)p.rank, first + token);
        u32 weight = __float_as_uint(p.weights[first * p.top_k + i]);
        store_relaxed_system(at + (i - token * (u32)p.top_k), tagged_word(op, weight));
      }
      for (u32 r = 0; r < p.ranks; r++) {
        if (sources.areas[r] != nullptr) {
          u64* at = op.entries(sources.areas[r], (u32)p.rank, first + token);
          store_relaxed_system(at + (i - token * (u32)p.top_k),
                               tagged_word(op, rank == r ? entry : NO_ENTRY));
        }
      }
    }
  }

  // Puts the words to internode ranks once all of them are written; in the last tile.
  __device__ __forceinline__ void send_words(const Operation& op, const Sources& sources, Team team) const {
    const LowLatencyParameters& p = op.p;
    bool weights = DELIVERS_WEIGHTS && (p.kind & KIND_WEIGHTED);
    for (u32 r = warp_id() - team.first; r < p.ranks; r += team.warps) {
      if (op.is_internode(r) && sources.areas[r] != nullptr) {
        put_words(op, r, true, (u32)p.tokens, weights, rows_before((u32)p.experts + r, tokens));
      }
    }
  }

  // Moves on to the next tile. Between two barriers.
  __device__ __forceinline__ void next(const LowLatencyParameters& p, Team team) {
    for (u32 g = team.thread(); g < groups; g += team.threads()) {
      before[g] = rows_before(g, tokens);
    }
    first += tokens;
    tokens = (u32)min((u64)tokens, p.tokens - first);
  }

 private:
  // Rows for an expert, or a rank, before a token of the tile.
  __device__ __forceinline__ u32 rows_before(u32 group, u32 token) const {
    u32 rows = before[group];
    const u32* of = marks + group * words;
    for (u32 w = 0; w < token / 32; w++) {
      rows += __popc(of[w]);
    }
    return token % 32 == 0 ? rows : rows + __popc(of[token / 32] & ((1u << token % 32) - 1));
  }
};

// A team of one block, after it has read the first tile and synchronized.
__device__ __forceinline__ void publish_routing(const Operation& op, const Sources& sources, RoutingTile tile,
                                             Team team) {
  const LowLatencyParameters& p = op.p;
  for (u32 r = team.thread(); r < p.ranks; r += team.threads()) {
    if (sources.areas[r] != nullptr) {
      u32 batch = (u32)(p.kind << 24 | p.top_k << 16 | p.tokens);
      store_relaxed_system(op.header(sources.areas[r], (u32)p.rank), tagged_word(op, batch));
    }
  }
  for (;;) {
    tile.mark(op, sources, team);
    team.sync();
    if (*tile.bad != 0) {
      tile.report_bad_choices(op, team);
      team.sync();
    }
    if (tile.first + tile.tokens == p.tokens) {
      tile.publish_counts(op, sources, team);
      tile.publish_entries(op, sources, team);
      if constexpr (PUTS) {
        team.sync();
        tile.send_words(op, sources, team);
      }
      return;
    }
    tile.publish_entries(op, sources, team);
    team.sync();
    tile.next(p, team);
    team.sync();
    tile.read(p, team);
    team.sync();
  }
}
