// Where things lie in the memory of a rank that its peers write into.
#pragma once
#include "routing.hpp"

namespace emulator {

// As RegionLayout lays it out, but for sizes of pages.
struct Region {
  u64 ready, done, counts, groups, group_words, arrivals, words, rows, scales, factors, ids, weights,
      tokens, sources, home, home_row_bytes, home_weights, bytes;
  u64 capacity, landing_rows;

  Region(const World& world, u32 most_alignment) {
    u64 tokens_of_all = (u64)world.ranks * world.most_tokens;
    capacity = tokens_of_all * world.most_choices + world.experts * most_alignment;
    landing_rows = std::min(capacity, tokens_of_all);
    // In one node what a rank holds for itself stays; across nodes there are also the rows of ranks
    // whose tokens it forwards.
    u32 homes = world.nodes() == 1 ? 1 : world.ranks + 1;
    u32 holders = world.nodes() == 1 ? world.ranks - 1 : world.ranks;
    u64 home_rows = homes * (u64)world.most_tokens * std::min(world.most_choices, holders);
    u64 companion = companion_bytes(world.scale_bytes, world.most_choices, false);
    group_words = world.most_tokens / 4 + 1;
    home_row_bytes = std::max(world.row_bytes, 32u);
    ready = 4096;
    done = ready + world.ranks * 8;
    counts = done + world.ranks * 8;
    groups = counts + world.ranks * (world.ranks + world.experts + 3) * 8;
    arrivals = groups + homes * world.ranks * group_words * 8;
    words = rows = round(arrivals + landing_rows * 8);
    scales = round(rows + capacity * world.row_bytes);
    factors = round(scales + capacity * world.scale_bytes);
    ids = round(factors + capacity * 4);
    weights = round(ids + capacity * 8 * world.most_choices);
    tokens = round(weights + capacity * 4 * world.most_choices);
    sources = round(tokens + capacity * 4);
    home = round(sources + capacity * 4);
    home_weights = round(home + std::max(home_rows * home_row_bytes, landing_rows * companion));
    bytes = home_weights + home_rows * 4 * world.most_choices;
  }

  static u64 companion_bytes(u32 scale_bytes, u32 top_k, bool cached) {
    u64 known = 16 + (scale_bytes + 15) / 16 * 16;
    return cached ? known : (known + top_k * 12 + 15) / 16 * 16;
  }

 private:
  static u64 round(u64 offset) { return (offset + 127) / 128 * 128; }
};

}  // namespace emulator
