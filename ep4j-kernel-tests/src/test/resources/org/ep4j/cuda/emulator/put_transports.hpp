// The carrier of puts to ranks that stores do not reach, as device_put.cuh selects it.
#pragma once
#include "machine.hpp"
#if EP4J_PUT_TRANSPORT == 1
#include "wire.hpp"
#elif EP4J_PUT_TRANSPORT == 2
#include "put_library.hpp"
#endif

namespace emulator {

#if EP4J_PUT_TRANSPORT == 0

class Transport {
 public:
  explicit Transport(Machine&) {}
  bool stores(u32, u32) const { return true; }
  void add(DevicePut&, u64, const std::string&) {}
  void start(std::function<bool()>) {}
  void lose(u32) {}
  u64 counted(const DevicePut&, u32) const { return 0; }
};

#elif EP4J_PUT_TRANSPORT == 1

// The proxy, with landing and outgoing memory in host memory.
class Transport {
 public:
  explicit Transport(Machine& machine) : memory(machine.memory), wire(machine) {}

  bool stores(u32 node, u32 other) const { return node == other; }

  void add(DevicePut& p, u64 bytes, const std::string& name) {
    p.outgoing = memory.allocate(bytes, "outgoing memory" + name, EVERYBODY);
    char* incoming = memory.allocate(bytes, "landing memory" + name, EVERYBODY);
    u64* counters = memory.zeroed<u64>(p.signals, "counters" + name, EVERYBODY);
    p.incoming = incoming;
    p.counters = counters;
    p.lanes_per_ring = wire.lanes_per_ring();
    p.rings = wire.add_rings((u32)p.rank, (u32)p.ranks, (u32)p.lanes, name);
    wire.add({p.rings, p.outgoing, bytes, incoming, bytes, 0, counters, p.signals});
  }

  void start(std::function<bool()> busy) { wire.start(std::move(busy)); }
  void lose(u32 rank) { wire.lose(rank); }
  u64 counted(const DevicePut& p, u32 number) const { return p.counters[number]; }

 private:
  Memory& memory;
  CommandWire wire;
};

#else

// Device functions of a library, which carry puts to all ranks or to those of other nodes.
class Transport {
 public:
  explicit Transport(Machine& machine) : moves_all(machine.random.once_in(2)), libraries(machine) {}

  bool stores(u32 node, u32 other) const { return !moves_all && node == other; }

  void add(DevicePut& p, u64 bytes, const std::string&) {
    p.library = libraries.add(p.own, bytes, (u32)p.signals);
    p.window = (u64)p.own;
  }

  void start(std::function<bool()> busy) { libraries.start(std::move(busy)); }
  void lose(u32) {}
  u64 counted(const DevicePut& p, u32 number) const { return libraries.library_count((u32)p.rank, number); }

 private:
  bool moves_all;
  PutLibraries libraries;
};

#endif

}  // namespace emulator
