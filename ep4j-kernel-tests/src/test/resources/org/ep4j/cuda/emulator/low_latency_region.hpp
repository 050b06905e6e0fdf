// Layout of the low-latency part of a rank.
#pragma once
#include "routing.hpp"

namespace emulator {

// As in LowLatencyLayout, except for page sizes.
struct LatencyRegion {
  u64 received, headers, counts, count_stride, entries, weights, flags, flag_stride, packets, rows, area_bytes, bytes;
  u64 source_bytes = 0, packed = 0, units = 0;  // across nodes
  u64 internode_area_bytes, share_bytes, internode_bytes;  // the same

  u32 areas;

  LatencyRegion(const World& world, u32 hidden, bool masking) : areas(masking ? MAX_AREAS : 2) {
    u64 ranks = world.ranks;
    u64 tokens = world.max_tokens;
    u64 choices = world.max_choices;
    u64 pieces = (hidden + PIECE - 1) / PIECE;
    received = 128;
    headers = received + ranks * 8;
    counts = headers + ranks * 8;
    count_stride = *std::max_element(world.locals.begin(), world.locals.end()) + 1;
    entries = counts + ranks * count_stride * 8;
    weights = entries + ranks * tokens * choices * 8;
    flags = weights + ranks * tokens * choices * 8;
    if (INTERNODE) {
      headers = round(received + ranks * 8);
      counts = headers + 16 + GROUPS * 8;
      entries = round(counts + count_stride * 8);
      weights = round(entries + tokens * choices * 8);
      packed = round(weights + tokens * choices * 8);
      units = packed + tokens * ((pieces + 1) / 2 * 2) * 8;
      source_bytes = units + GROUPS * UNITS * 8 - headers;
      flags = headers + ranks * source_bytes;
    }
    flag_stride = std::max(choices, ranks);
    // Packets, and so areas, are 128-byte aligned.
    packets = (flags + tokens * pieces * flag_stride * 8 + 127) / 128 * 128;
    rows = packets + (LL_PACKETS ? ranks * tokens * pieces * packet_bytes(VECTORS) : 0);
    u64 largest = LL_PACKETS ? choices : std::max(ranks, choices);
    area_bytes = (rows + tokens * largest * 2 * hidden - headers + 127) / 128 * 128;
    bytes = headers + areas * area_bytes;
    share_bytes = masking ? tokens * choices * 2 * hidden : 0;
    internode_area_bytes = masking ? (rows + ranks * share_bytes - headers + 127) / 128 * 128 : area_bytes;
    internode_bytes = headers + 2 * internode_area_bytes;
  }

  static u64 round(u64 offset) { return (offset + 15) / 16 * 16; }

  // Makes a part ready: rows hold garbage, words and packets are zero.
  void prepare(Memory& memory, char* part) const { prepare(memory, part, areas, area_bytes); }

  // The same for an internode part.
  void prepare_internode(Memory& memory, char* part) const { prepare(memory, part, 2, internode_area_bytes); }

 private:
  void prepare(Memory& memory, char* part, u32 count, u64 stride) const {
    std::memset(part, 0, headers);
    memory.label(part, "words");
    memory.label(part + received, "received");
    for (u32 i = 0; i < count; i++) {
      std::string name = "area " + std::to_string(i) + ": ";
      char* area = part + i * stride;
      std::memset(area + headers, 0, rows - headers);
      memory.label(area + headers, name + "headers");
      memory.label(area + counts, name + "counts");
      memory.label(area + entries, name + "entries");
      memory.label(area + weights, name + "weights");
      memory.label(area + flags, name + "flags");
      memory.label(area + packets, name + "packets");
      memory.label(area + rows, name + "rows");
    }
  }
};

}  // namespace emulator
