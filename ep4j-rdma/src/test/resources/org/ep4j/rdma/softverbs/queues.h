// Completion queues and queue pairs of this process.
//
// The holder of the engine's lock produces completions, and takes requests from queues. Threads of the
// application post requests and poll completions without that lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "abi.h"
#include "fabric.h"

namespace soft {

constexpr uint32_t MAX_REQUESTS = 16384;
constexpr uint32_t MAX_ENTRIES = 1 << 18;
constexpr uint32_t MAX_INLINE = 220;
constexpr uint32_t MAX_BYTES = 1u << 31;

class SpinLock {
 public:
  void lock();
  void unlock() { taken.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken = ATOMIC_FLAG_INIT;
};

struct QueuePair;

// What a completion releases when it is polled: requests of a send queue.
struct Entry {
  Completion completion;
  QueuePair* pair;  // null once the queue pair is gone: the entry is skipped
  uint64_t sendsDone;
};

struct CompletionQueue {
  QueueObject object;
  std::vector<Entry> ring;
  std::atomic<uint64_t> produced{0}, polled{0};
  std::atomic<bool> overrun{false};
  SpinLock polling;
  int users = 0;

  void push(const Entry& entry);
  int poll(int max, Completion* to);
  void forget(const QueuePair* pair);
};

struct SendEntry {
  uint64_t id, local, remote;
  uint32_t key, remoteKey, bytes, opcode, flags, immediate;
  uint64_t firstPacket;
  uint32_t packets;
  uint8_t content[MAX_INLINE];  // inline bytes, or operands
};

struct ReceiveEntry {
  uint64_t id, address;
  uint32_t length, key;
};

// Posted receives, which the engine takes in their order.
struct ReceiveQueue {
  std::vector<ReceiveEntry> entries;
  std::atomic<uint64_t> posted{0}, taken{0};
  SpinLock posting;

  explicit ReceiveQueue(uint32_t places) : entries(places) {}
  int post(const ReceiveRequest& request);
  bool empty() const { return taken.load() == posted.load(std::memory_order_acquire); }
  ReceiveEntry take();
};

// Receives for messages to any of several queue pairs.
struct SharedReceives {
  SharedReceivesObject object;
  ReceiveQueue queue;
  int users;
};

struct QueuePair {
  PairObject object;
  PairLimits limits;
  bool signalAll;
  std::atomic<uint32_t> state{RESET};
  uint32_t access = 0;
  int port = -1, peerPort = -1;
  uint32_t peer = 0, sendPacket = 0;
  int64_t timeout = 0;  // ns; 0: none
  uint32_t retryLimit = 0, notReadyLimit = 0;
  uint32_t reads = 0, peerReads = 0;  // packets with answers on their way: of this end, of its peer

  // Send queue: posted, sent or on the way, done, free again.
  std::vector<SendEntry> sends;
  std::atomic<uint64_t> sendsPosted{0}, sendsFree{0};
  uint64_t sendsDone = 0, current = 0, nextFirstPacket = 0;
  uint32_t currentPacket = 0;
  uint64_t packetsSent = 0, packetsDone = 0;
  int64_t deadline = 0, pausedUntil = 0;
  uint32_t retries = 0, notReadyRetries = 0;
  SpinLock posting;

  // Receives, and the message that is arriving.
  ReceiveQueue ownReceives;
  ReceiveQueue& receives;  // the same, or shared ones
  ReceiveEntry message = {};
  bool arriving = false;
  uint64_t messageBytes = 0;  // that have arrived
  bool refused = false;       // the packet that is expected next

  QueuePair(const PairLimits& limits, SharedReceives* shared);
  int post(const SendRequest& request);
  int post(const ReceiveRequest& request);
  const SendEntry& send(uint64_t at) const { return sends[at % sends.size()]; }

  // Takes the receive of the next message; false if there is none.
  bool beginReceive();
  void completeSend(uint32_t status);
  void completeReceive(uint32_t status, uint32_t opcode, uint32_t bytes, uint32_t immediate);
  // The next request to be done fails, and the queue pair with it.
  void fail(uint32_t status);
  // Enters the error state: all requests return.
  void stop();
};

}  // namespace soft
