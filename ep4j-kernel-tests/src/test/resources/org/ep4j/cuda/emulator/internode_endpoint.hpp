// Memory of a rank that ranks of other nodes write into, or that is sent to them.
#pragma once
#include "machine.hpp"

namespace emulator {

struct InternodeEndpoint {
  char* incoming;
  u64 incoming_bytes;
  char* outgoing;
  u64 outgoing_bytes;
  u64 outgoing_begins;  // offset of outgoing memory in the region that puts read
  u64* counters;
  u64 counter_count;
};

}  // namespace emulator
