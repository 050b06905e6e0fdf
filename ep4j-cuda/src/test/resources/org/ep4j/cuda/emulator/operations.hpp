// What a dispatch is given. Needs the kernels' parameters, which a world includes before.
#pragma once
#include "routing.hpp"

namespace emulator {

// A dispatch that is not cached, and what later operations need of it.
struct Handle {
  Routing routing;
  bool by_experts;
  bool crowded;  // some rank has not room for all
  std::vector<u32> alignments;
  std::vector<u64> limits;
  std::vector<Delivery> deliveries;
  std::vector<DispatchParameters> parameters;  // by rank; what differs in a cached one is replaced
};

// What the tokens of a dispatch carry, by rank.
struct Payload {
  u32 row_bytes;
  u32 scale_bytes;
  bool factors;
  std::vector<char*> x;
  std::vector<char*> scales;
  std::vector<float*> factor;
  std::vector<std::vector<char>> sent_x, sent_scales;  // the same: the caller writes over his own
  std::vector<std::vector<float>> sent_factors;
};

}  // namespace emulator
