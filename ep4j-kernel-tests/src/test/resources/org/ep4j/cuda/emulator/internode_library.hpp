// A library between nodes: landing memory, outgoing memory and signals of a rank are one window.
#pragma once
#include "internode_endpoint.hpp"
#include "put_library.hpp"

namespace emulator {

class EmulatedTransport {
 public:
  explicit EmulatedTransport(Machine& machine) : machine(machine), libraries(machine) {}

  bool mapped() const { return false; }
  u64 lanes() const { return 1; }
  std::string text() const { return "library"; }

  // Windows have one size, so all ranks are added before the first one is used.
  void add(u64 incoming_bytes, u64 outgoing_bytes, u64 counters) {
    InternodeEndpoint end{};
    end.incoming_bytes = incoming_bytes;
    end.outgoing_bytes = outgoing_bytes;
    end.outgoing_begins = (incoming_bytes + 127) / 128 * 128;
    end.counter_count = counters;
    ends.push_back(end);
    window_bytes = std::max(window_bytes, (end.outgoing_begins + outgoing_bytes + 127) / 128 * 128);
  }

  const InternodeEndpoint& end(u32 r) {
    for (u32 i = (u32)handles.size(); i < ends.size(); i++) {
      InternodeEndpoint& end = ends[i];
      std::string name = "window of rank " + std::to_string(i);
      char* window = machine.memory.allocate(window_bytes + end.counter_count * 8, name, (int)i);
      end.incoming = window;
      end.outgoing = window + end.outgoing_begins;
      end.counters = (u64*)(window + window_bytes);
      std::fill_n(end.counters, end.counter_count, 0);
      handles.push_back(libraries.add(window, window_bytes, (u32)end.counter_count));
    }
    return ends[r];
  }

  InternodeTransport describe(u32 r, u32) {
    InternodeTransport made{};
    made.counters = end(r).counters;
    made.library = handles[r];
    made.window = (u64)ends[r].incoming;
    made.words = window_bytes;
    made.rings.rings = machine.random.between(1, 4);
    return made;
  }

  void start(std::function<bool()> busy) { libraries.start(std::move(busy)); }

 private:
  Machine& machine;
  PutLibraries libraries;
  u64 window_bytes = 0;
  std::vector<InternodeEndpoint> ends;
  std::vector<u64> handles;
};

}  // namespace emulator
