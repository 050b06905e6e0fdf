// The hardware, so to say: one thread of each process that sends the requests of its queue pairs and
// takes packets from their rings.
//
// In each round every queue pair sends and takes a few packets, in an order that is drawn from a
// seed. Nothing but the order within a queue pair can be relied on.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fabric.h"
#include "ports.h"
#include "queues.h"

namespace soft {

class Engine {
 public:
  // The engine of this process; it runs while a device is open.
  static Engine& open();
  static Engine& get();
  static void close();

  // Locks what the thread of the engine uses.
  class Hold {
   public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
  };

  Fabric fabric;
  Ports ports;
  std::vector<QueuePair*> pairs;

  void wake() { fabric.wake(fabric.process()); }

  // For the sender and the receiver, during a round.
  std::mt19937_64 random;
  int64_t now = 0;
  int64_t nextEvent = 0;  // the round after which there is something to do again
  void at(int64_t time) { nextEvent = std::min(nextEvent, time); }
  void notify(uint32_t process) { notified[process % MAX_PROCESSES] = true; }
  bool alive(uint32_t process);

 private:
  explicit Engine(const char* directory);
  void run();
  bool round();
  bool breakPairs();
  std::mutex mutex;
  std::atomic<int> waiting{0};
  std::atomic<bool> ending{false};
  std::vector<QueuePair*> order;
  bool notified[MAX_PROCESSES] = {};
  int64_t lookedAt[MAX_PROCESSES] = {};
  bool seenAlive[MAX_PROCESSES] = {};
  std::thread thread;
};

int64_t monotonicNow();

// Both return whether something was done.
bool sendSome(Engine& engine, QueuePair& pair, int packets);
bool takeSome(Engine& engine, QueuePair& pair, int packets);

}  // namespace soft
