// What carries puts of kernels to ranks that stores do not reach, as device_put.cuh has chosen it.
#pragma once
#include "machine.hpp"
#if EP4J_PUT_CARRIER == 1
#include "wire.hpp"
#elif EP4J_PUT_CARRIER == 2
#include "put_library.hpp"
#endif

namespace emulator {

#if EP4J_PUT_CARRIER == 0

class Carrier {
 public:
  explicit Carrier(Machine&) {}
  bool stores(u32, u32) const { return true; }
  void add(DevicePut&, u64, const std::string&) {}
  void start(std::function<bool()>) {}
  void lose(u32) {}
  u64 carried(const DevicePut&, u32) const { return 0; }
};

#elif EP4J_PUT_CARRIER == 1

// The proxy: `flushes` are what kernels have of the memory behind them.
class Carrier {
 public:
  explicit Carrier(Machine& machine) : memory(machine.memory), wire(machine) {}

  bool stores(u32 node, u32 other) const { return node == other; }

  void add(DevicePut& p, u64 bytes, const std::string& name) {
    p.outgoing = memory.allocate(bytes, "outgoing memory" + name, EVERYBODY);
    char* landing = memory.allocate(bytes, "landing memory" + name, EVERYBODY);
    u64* counters = memory.zeroed<u64>(p.signals, "counters" + name, EVERYBODY);
    p.landing = landing;
    p.counters = counters;
    p.lanes_of_a_ring = wire.lanes_of_a_ring();
    p.rings = wire.add_rings((u32)p.rank, (u32)p.ranks, (u32)p.lanes, name);
    wire.add({p.rings, p.outgoing, bytes, landing, bytes, 0, counters, p.signals});
  }

  void start(std::function<bool()> busy) { wire.start(std::move(busy)); }
  void lose(u32 rank) { wire.lose(rank); }
  u64 carried(const DevicePut& p, u32 number) const { return p.counters[number]; }

 private:
  Memory& memory;
  CommandWire wire;
};

#else

// Device functions of a library, which carry to all ranks or to those of other nodes.
class Carrier {
 public:
  explicit Carrier(Machine& machine) : machine(machine) {
    carries_all = coin();
    counts_apart = coin();
    contexts = machine.random.between(1, 4);
  }

  bool stores(u32 node, u32 other) const { return !carries_all && node == other; }

  void add(DevicePut& p, u64 bytes, const std::string&) {
    auto mine = std::make_unique<PutLibrary>();
    mine->rank = (u32)p.rank;
    mine->window = p.own;
    mine->window_bytes = bytes + p.signals * 8;
    mine->words = counts_apart ? nullptr : (u64*)(p.own + bytes);
    mine->signals = (u32)p.signals;
    mine->queues.resize(contexts);
    mine->counts.resize(contexts * p.signals);
    mine->all = &all;
    p.library = (u64)mine.get();
    p.window = (u64)p.own;
    all.push_back(mine.get());
    libraries.push_back(std::move(mine));
  }

  void start(std::function<bool()> busy) {
    for (u32 r = 0; r < all.size(); r++) {
      machine.enqueue((u32)all.size() + r, {"library", 1, LANES, 0, [=, this] { drive(r, busy); }, {}});
    }
  }

  void lose(u32) {}

  u64 carried(const DevicePut& p, u32 number) const {
    u64 sum = 0;
    for (u32 i = 0; i < contexts; i++) {
      sum += all[p.rank]->counts[i * p.signals + number];
    }
    return sum;
  }

 private:
  Machine& machine;
  bool carries_all, counts_apart;
  u32 contexts;
  std::vector<std::unique_ptr<PutLibrary>> libraries;
  std::vector<PutLibrary*> all;

  void drive(u32 r, const std::function<bool()>& busy) {
    while (threadIdx.x == 0) {
      bool goes_on = busy();
      if (!all[r]->carry_some(machine.random) && !goes_on) {
        return;
      }
      give_way();
    }
  }
};

#endif

}  // namespace emulator
