// Layout of the memory of a rank that its peers write into.
#pragma once
#include "routing.hpp"

namespace emulator {

// As in RegionLayout, except for page sizes.
struct Region {
  u64 ready, done, places, counts, groups, group_words, arrivals, words, rows, scales, factors, ids, weights,
      tokens, sources, return_buffer, return_row_bytes, return_weights, bytes;
  u64 capacity, receive_slots;

  Region(const World& world, u32 max_alignment) {
    u64 tokens_of_all = (u64)world.ranks * world.max_tokens;
    capacity = tokens_of_all * world.max_choices + world.experts * max_alignment;
    receive_slots = std::min(capacity, tokens_of_all);
    // Within one node rows that a rank holds for itself are not pushed; across nodes there are also
    // the rows of ranks whose tokens it forwards.
    u32 sections = world.nodes() == 1 ? 1 : world.ranks + 1;
    u32 holders = world.nodes() == 1 ? world.ranks - 1 : world.ranks;
    u64 return_rows = sections * (u64)world.max_tokens * std::min(world.max_choices, holders);
    u64 metadata = metadata_bytes(world.scale_bytes, world.max_choices, false);
    group_words = world.max_tokens / 4 + 1;
    return_row_bytes = std::max(world.row_bytes, 32u);
    // Behind the control words: waits by rank, tokens by local expert.
    ready = round(std::max<u64>(4096, sizeof(Control) + (world.ranks + world.experts) * 8));
    done = ready + world.ranks * 8;
    places = done + world.ranks * 8;
    counts = places + world.ranks * 16;
    groups = counts + world.ranks * (world.ranks + world.experts + 3) * 8;
    arrivals = groups + sections * world.ranks * group_words * 8;
    words = rows = round(arrivals + receive_slots * 8);
    scales = round(rows + capacity * world.row_bytes);
    factors = round(scales + capacity * world.scale_bytes);
    ids = round(factors + capacity * 4);
    weights = round(ids + capacity * 8 * world.max_choices);
    tokens = round(weights + capacity * 4 * world.max_choices);
    sources = round(tokens + capacity * 4);
    return_buffer = round(sources + capacity * 4);
    return_weights = round(return_buffer + std::max(return_rows * return_row_bytes, receive_slots * metadata));
    bytes = return_weights + return_rows * 4 * world.max_choices;
  }

  static u64 metadata_bytes(u32 scale_bytes, u32 top_k, bool cached) {
    u64 known = 16 + (scale_bytes + 15) / 16 * 16;
    return cached ? known : (known + top_k * 12 + 15) / 16 * 16;
  }

 private:
  static u64 round(u64 offset) { return (offset + 127) / 128 * 128; }
};

}  // namespace emulator
