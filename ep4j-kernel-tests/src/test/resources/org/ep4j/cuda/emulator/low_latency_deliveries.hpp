// The expected results of a rank that has received a low-latency dispatch.
#pragma once
#include "low_latency_expected.hpp"

namespace emulator {

inline void expect(u64 seen, u64 expected, const char* what, u32 rank, u64 number = 0) {
  if (seen != expected) {
    fail("rank %u: %s %llu is %lld, expected %lld", rank, what, number, seen, expected);
  }
}

struct Deliveries {
  const World& world;

  // Groups of rows that a rank receives, and the row capacity of each.
  u64 groups(bool rank_major, u32 r) const { return rank_major ? world.ranks : world.locals[r]; }

  u64 capacity(bool rank_major) const { return (rank_major ? 1 : world.ranks) * world.max_tokens; }

  // The rows of a group, in order.
  std::vector<Row> rows(const LatencyDispatch& dispatch, u32 r, u32 group, const RankSet& members) const {
    return dispatch.rank_major ? dispatch.tokens(r, group, members) : dispatch.rows(r, group, members);
  }

  void check(const LatencyDispatch& dispatch, u32 r, const RankSet& with, const LowLatencyParameters& p,
             const std::vector<int>& cumulative) const {
    for (u32 l = 0; l < world.locals[r]; l++) {
      std::vector<Row> rows = dispatch.rows(r, l, with);
      if (!dispatch.rank_major) {
        expect((u64)p.row_counts[l], rows.size(), "rows of expert", r, l);
      }
      if (p.cumulative != nullptr) {
        expect((u64)p.cumulative[l], cumulative[l] + rows.size(), "all rows of expert", r, l);
      }
      for (u64 s = 0, first = 0; !dispatch.rank_major && s < world.ranks; s++) {
        u64 count = (u64)std::count_if(rows.begin(), rows.end(),
                                       [&](const Row& row) { return row.source == s; });
        expect(p.ranges[l * world.ranks + s], first << 32 | count, "range of source", r, s);
        first += count;
      }
    }
    for (u32 s = 0; dispatch.rank_major && s < world.ranks; s++) {
      u64 count = dispatch.tokens(r, s, with).size();
      expect((u64)p.row_counts[s], count, "rows of source", r, s);
      expect(p.ranges[s], s * capacity(true) << 32 | count, "range of source", r, s);
    }
    for (u32 g = 0; g < groups(dispatch.rank_major, r); g++) {
      std::vector<Row> rows = this->rows(dispatch, r, g, with);
      for (u64 i = 0; i < rows.size(); i++) {
        check_row(dispatch, r, p, g, i, rows[i]);
        if (dispatch.rank_major) {
          check_choices(dispatch, r, p, g * capacity(true) + i, rows[i]);
        } else if (dispatch.weighted) {
          u64 slot = g * capacity(false) + i;
          const Row& row = rows[i];
          float weight = dispatch.weights[row.source][row.token * dispatch.routing.top_k + row.choice];
          if (p.row_weights[slot] != weight) {
            fail("rank %u: weight of row %llu is %g, expected %g", r, slot, p.row_weights[slot], weight);
          }
        }
      }
    }
  }

 private:
  void check_choices(const LatencyDispatch& dispatch, u32 r, const LowLatencyParameters& p, u64 slot,
                     Row row) const {
    const Routing& routing = dispatch.routing;
    for (u32 k = 0; k < routing.top_k; k++) {
      bool here = routing.leads(row.source, row.token, k, r);
      u64 at = slot * routing.top_k + k;
      i64 local = here ? (i64)world.local[routing.id(row.source, row.token, k)] : -1;
      expect((u64)p.row_choices[at], (u64)local, "choice of row", r, at);
      float weight = here ? dispatch.weights[row.source][row.token * routing.top_k + k] : 0;
      if (dispatch.weighted && p.row_weights[at] != weight) {
        fail("rank %u: weight %llu is %g, expected %g", r, at, p.row_weights[at], weight);
      }
    }
  }

  void check_row(const LatencyDispatch& dispatch, u32 r, const LowLatencyParameters& p, u32 group,
                 u64 i, Row row) const {
    u64 slot = group * capacity(dispatch.rank_major) + i;
    const std::vector<u8>& expected = dispatch.encoded[row.source][row.token];
    expect((u64)p.source_tokens[slot], row.token, "token of row", r, slot);
    for (u64 b = 0; b < p.row_bytes; b++) {
      expect((u8)p.rows[slot * p.row_bytes + b], expected[b], "byte of row", r, slot << 32 | b);
    }
    u64 unit = dispatch.encoding.column_unit();
    for (u64 b = 0; b < p.scale_bytes; b++) {
      u64 column = group * (p.scale_bytes / unit) + b / unit;
      u64 at = p.scale_columns == 0 ? slot * p.scale_bytes + b
                                    : (column * p.scale_columns + i) * unit + b % unit;
      expect((u8)p.scales[at], expected[p.row_bytes + b], "byte of scales", r, slot << 32 | b);
    }
  }
};

}  // namespace emulator
