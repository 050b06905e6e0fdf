// What the processes on a fabric share: a file with the state of ports, processes and queue pairs,
// and for each queue pair a ring of the packets that are on their way to it, and places for the answers
// to its reads and atomic operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace soft {

constexpr uint32_t MAX_PAIRS = 2048;
constexpr uint32_t MAX_PROCESSES = 256;
constexpr uint32_t MAX_PORTS = 64;
constexpr uint64_t RING_BYTES = 256 << 10;
constexpr uint32_t MTU = 4096;
constexpr uint32_t MAX_ANSWERS = 16;  // on their way to a queue pair
constexpr uint64_t PAIR_BYTES = RING_BYTES + MAX_ANSWERS * MTU;

// The engine of the process waits while `doorbell` is what it saw before it looked for work. Any
// process writes first what the engine shall find, then adds to `doorbell`, and wakes the engine if
// `sleeping` is set, which the engine writes. Both are sequentially consistent, so no ring is missed.
struct alignas(64) SharedProcess {
  std::atomic<uint32_t> doorbell, sleeping;
};

// Senders of all processes write it at once. No thread waits for it.
struct alignas(64) SharedPort {
  std::atomic<int64_t> busyUntil;  // of the cable, in ns of the monotonic clock: see bucket.h
  std::atomic<uint64_t> notReadyReceived, notReadySent;
};

// One end of a queue pair. Its process writes all but `head` and the ring, which its peer writes: the
// peer is the only sender once both ends name each other. The peer also takes the refusal. Engines
// look at all words in each round, and ring the doorbell of the other end when they have written:
//   payload, then `head` (release)         read by the receiver (acquire), then the payload
//   bytes stored, then `tail` (release)    read by the sender (acquire), which then reuses the ring
//   bytes stored, then `expected` (release) read by the sender (acquire), which then completes
//   the answer, then `expected` (release)   read by the sender (acquire), then the answer
// Answers lie with the end that asked; its peer writes them. The first group is written while the peer does not send yet, and `number` and `peer` last.
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
  // The answer to a packet of a queue pair. Its place serves again after MAX_ANSWERS packets.
  uint8_t* answer(uint32_t number, uint64_t packet);
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
  void join();
  void map();
  void leave();
  bool lock(uint32_t at);
  void unlock(uint32_t at);
  void lockForJoining();
  bool others();
  int file = -1;
  uint32_t place = MAX_PROCESSES;
  SharedFabric* memory = nullptr;
  uint64_t bytes;
  uint64_t ringsAt;
};

}  // namespace soft
