// Low-latency operations of a world, and the expected results of each.
#pragma once
#include "low_latency_rows.hpp"
#include "routing.hpp"

// 1: a world draws the layout of each dispatch.
#ifndef EP4J_MIXED
#define EP4J_MIXED 0
#endif

namespace emulator {

// The live ranks, as one rank sees them.
typedef std::vector<bool> RankSet;

// A dispatch on all ranks.
struct LatencyDispatch {
  const World& world;
  Routing routing;
  Encoding encoding;
  bool rank_major;
  bool columns;
  bool weighted;
  std::vector<std::vector<float>> weights;             // [rank][token, choice]
  std::vector<std::vector<Halves>> x;                  // [rank][token]
  std::vector<std::vector<std::vector<u8>>> encoded;  // the same in the travelling format

  LatencyDispatch(const World& world, Encoding encoding, Random& random)
      : world(world), routing(world, random), encoding(encoding),
        rank_major(EP4J_MIXED ? random.once_in(2) : EP4J_RANK_MAJOR), columns(random.once_in(2)),
        weighted(!random.once_in(3)) {
    u64 key = random.engine();
    for (u32 r = 0; r < world.ranks; r++) {
      x.emplace_back();
      encoded.emplace_back();
      weights.emplace_back();
      for (u32 i = 0; i < routing.ids[r].size(); i++) {
        weights[r].push_back((float)random.between(1, 1000) / 333);
      }
      for (u32 t = 0; t < routing.tokens[r]; t++) {
        x[r].push_back(drawn_row(mixed(key, r, t), encoding.hidden));
        encoded[r].push_back(encoding.encoded(x[r][t]));
      }
    }
  }

  // Tokens of a source that go to a rank, in order.
  std::vector<Row> tokens(u32 rank, u32 source, const RankSet& members) const {
    std::vector<Row> all;
    for (u32 t = 0; members[source] && t < routing.tokens[source]; t++) {
      bool goes = false;
      for (u32 k = 0; k < routing.top_k; k++) {
        goes = goes || routing.leads(source, t, k, rank);
      }
      if (goes) {
        all.push_back(Row{true, source, t, 0});
      }
    }
    return all;
  }

  // Rows of a local expert of a rank, in order.
  std::vector<Row> rows(u32 rank, u32 local, const RankSet& members) const {
    std::vector<Row> all;
    for (u32 s = 0; s < world.ranks; s++) {
      for (u32 t = 0; members[s] && t < routing.tokens[s]; t++) {
        for (u32 k = 0; k < routing.top_k; k++) {
          if (routing.leads(s, t, k, rank) && world.local[routing.id(s, t, k)] == local) {
            all.push_back(Row{true, s, t, k});
          }
        }
      }
    }
    return all;
  }
};

enum CombineMode { MODE_CHOICES, MODE_LOGFMT, MODE_PARTIAL, MODE_SUMMED };

// A combine of a dispatch's rows, on all ranks.
struct LatencyCombine {
  std::shared_ptr<LatencyDispatch> dispatch;
  CombineMode mode;
  u64 key;
  std::vector<std::vector<i64>> ids;        // as dispatched, except for choices that are skipped
                                            // now
  std::vector<std::vector<float>> weights;  // [rank][token, choice]
  bool ordered;  // by experts

  LatencyCombine(std::shared_ptr<LatencyDispatch> given, Random& random)
      : dispatch(given), mode(given->rank_major ? MODE_SUMMED : (CombineMode)random.below(3)), key(random.engine()), ids(given->routing.ids), ordered(mode < MODE_PARTIAL && random.once_in(2)) {
    u32 skips = random.once_in(3) ? random.between(1, 8) : 0;  // of 8
    for (u32 r = 0; r < ids.size(); r++) {
      weights.emplace_back();
      for (u32 i = 0; i < ids[r].size(); i++) {
        bool refused = given->routing.refused(r, i / given->routing.top_k, i % given->routing.top_k);
        ids[r][i] = refused || random.below(8) < skips ? -1 : ids[r][i];
        weights[r].push_back((float)random.between(1, 1000) / 333);
      }
    }
  }

  // The row of a choice's expert for a token; RANK_MAJOR: of a holder.
  Halves row(u32 source, u32 token, u32 maker) const {
    return drawn_row(mixed(key, source, token, maker), dispatch->encoding.hidden);
  }

  // The sum of a token on its own rank, whose live ranks are `members`.
  Halves sum(u32 rank, u32 token, const RankSet& members) const {
    u32 hidden = dispatch->encoding.hidden;
    std::vector<float> total(hidden);
    for (u32 holder = 0; holder < dispatch->world.ranks; holder++) {
      std::vector<float> partial(hidden);
      bool held = false;
      for (u32 k = 0; k < dispatch->routing.top_k; k++) {
        bool here = members[holder] && dispatch->routing.leads(rank, token, k, holder);
        held = held || here;
        if (mode == MODE_PARTIAL && here) {
          add(rank, token, k, partial);
        }
      }
      Halves summed = mode == MODE_SUMMED ? row(rank, token, holder) : Halves(hidden);
      for (u32 h = 0; held && h < hidden; h++) {
        u32 half = mode == MODE_SUMMED ? summed[h] : round_to_bf16(partial[h]);
        total[h] = std::fmaf(widened((u16)half), 1, total[h]);
      }
    }
    for (u32 k : order_of(rank, token)) {
      i64 id = dispatch->routing.id(rank, token, k);
      u32 holder = id < 0 || id >= (i64)dispatch->world.experts ? 0 : dispatch->world.owner[id];
      if (members[holder] && dispatch->routing.leads(rank, token, k, holder)) {
        add(rank, token, k, total);
      }
    }
    Halves result(hidden);
    for (u32 h = 0; h < hidden; h++) {
      result[h] = (u16)round_to_bf16(total[h]);
    }
    return result;
  }

 private:
  // The choices of a token whose rows are added here, in the order of their addition.
  std::vector<u32> order_of(u32 rank, u32 token) const {
    std::vector<u32> choices;
    for (u32 k = 0; mode < MODE_PARTIAL && k < dispatch->routing.top_k; k++) {
      choices.push_back(k);
    }
    std::stable_sort(choices.begin(), choices.end(), [&](u32 a, u32 b) {
      return ordered && key_of(rank, token, a) < key_of(rank, token, b);
    });
    return choices;
  }

  i64 key_of(u32 rank, u32 token, u32 k) const {
    return dispatch->routing.order_of(ids[rank][token * dispatch->routing.top_k + k]);
  }

  void add(u32 rank, u32 token, u32 k, std::vector<float>& sums) const {
    u32 at = token * dispatch->routing.top_k + k;
    if (ids[rank][at] == -1) {
      return;
    }
    Halves row = mode == MODE_LOGFMT ? travelled(this->row(rank, token, k)) : this->row(rank, token, k);
    for (u32 h = 0; h < sums.size(); h++) {
      sums[h] = std::fmaf(widened(row[h]), weights[rank][at], sums[h]);
    }
  }
};

}  // namespace emulator
