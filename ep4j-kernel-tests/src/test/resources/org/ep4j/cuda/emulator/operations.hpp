// The inputs of a dispatch. Needs the kernels' parameters, which a world includes before.
#pragma once
#include "routing.hpp"

namespace emulator {

inline void expect(u64 seen, u64 expected, const char* what, u32 rank, u64 number = 0) {
  if (seen != expected) {
    fail("rank %u: %s %llu is %lld, expected %lld", rank, what, number, seen, expected);
  }
}

// A dispatch that is not cached, and the state that later operations need.
struct Handle {
  Routing routing;
  bool by_experts;
  bool overflow_rank;  // some rank lacks room for its rows
  bool refused;        // and the number of rows is not fixed: no rank sends any
  std::vector<u32> alignments;
  std::vector<u64> limits;
  std::vector<Delivery> deliveries;
  std::vector<DispatchParameters> parameters;  // by rank; a cached dispatch replaces the fields
                                               // that differ
};

// The payload of a dispatch's tokens, by rank.
struct Payload {
  u32 row_bytes;
  u32 scale_bytes;
  u32 chunk_tokens = 0;  // across nodes
  bool factors;
  std::vector<char*> x;
  std::vector<char*> scales;
  std::vector<float*> factor;
  std::vector<std::vector<char>> sent_x, sent_scales;  // copies, because the caller overwrites its
                                                       // own
  std::vector<std::vector<float>> sent_factors;
};

// The differences for ranks of several nodes.
class Across {
 public:
  virtual ~Across() = default;

  // Once a rank.
  virtual void set_constants(DispatchParameters& p, u32 rank) = 0;

  // Once a new handle of a rank.
  virtual void set_handle(DispatchParameters& p, u32 rank) = 0;

  // Once a payload.
  virtual void draw_chunks(const Routing& routing, Payload& payload) = 0;

  // The kernel, its warps and shared memory.
  virtual void set_launch(DispatchParameters& p, const Handle& handle, const Payload& payload,
                          Launch& launch) = 0;

  // An operation of a rank has ended.
  virtual void ended() = 0;
};

}  // namespace emulator
