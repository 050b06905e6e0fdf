// What the processes on a fabric share: a file with the state of ports, processes and queue pairs,
// and for each queue pair a ring of the packets that are on their way to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace soft {

constexpr uint32_t MAX_PAIRS = 2048;
constexpr uint32_t MAX_PROCESSES = 256;
constexpr uint32_t MAX_PORTS = 64;
constexpr uint64_t RING_BYTES = 256 << 10;

// The engine of a process sleeps on its doorbell.
struct alignas(64) SharedProcess {
  std::atomic<uint32_t> doorbell, sleeping;
};

struct alignas(64) SharedPort {
  std::atomic<int64_t> busyUntil;  // of the cable, in ns of the monotonic clock: see bucket.h
  std::atomic<uint64_t> notReadyReceived, notReadySent;
};

// One end of a queue pair. Its process writes all but head and the ring, which its peer writes: the
// peer is the only sender once both ends name each other. The peer also takes the refusal.
struct alignas(64) SharedPair {
  std::atomic<uint32_t> number;  // 0 if there is no queue pair
  std::atomic<uint32_t> process, port;
  std::atomic<uint32_t> peer;         // number of the other end, from READY_TO_RECEIVE on
  std::atomic<uint32_t> firstPacket;  // that this end expects
  std::atomic<uint32_t> notReadyTimer;
  alignas(64) std::atomic<uint64_t> expected;  // packets that took effect; the acknowledgement
  std::atomic<uint64_t> refusal;               // see receiver.cpp; the peer takes it
  alignas(64) std::atomic<uint64_t> head;      // bytes written to the ring
  alignas(64) std::atomic<uint64_t> tail;      // bytes taken from it
};

struct SharedFabric {
  std::atomic<uint32_t> nextPair;
  SharedPort ports[MAX_PORTS];
  SharedProcess processes[MAX_PROCESSES];
  SharedPair pairs[MAX_PAIRS];
};

// This process on the fabric. A process holds a lock of the file for its place, which the system
// releases when it ends, however it ends.
class Fabric {
 public:
  explicit Fabric(const std::string& directory);
  ~Fabric();
  Fabric(const Fabric&) = delete;

  SharedFabric& shared() { return *memory; }
  uint32_t process() const { return place; }
  uint8_t* ring(uint32_t number);
  SharedPair& pair(uint32_t number) { return memory->pairs[number % MAX_PAIRS]; }

  // Takes a place for a queue pair; 0 if there is none. Places are taken in turn, so that a packet
  // to a queue pair that has just gone does not meet another one in its place.
  uint32_t takePair(uint32_t port);
  void freePair(uint32_t number);

  void wake(uint32_t process);
  void sleep(uint32_t seen, int64_t nanoseconds);
  uint32_t doorbell() { return memory->processes[place].doorbell.load(); }
  bool alive(uint32_t process);

 private:
  bool lock(uint32_t at, bool wait);
  bool others();
  int file = -1;
  uint32_t place = MAX_PROCESSES;
  SharedFabric* memory = nullptr;
  uint64_t bytes;
  uint64_t ringsAt;
};

}  // namespace soft
