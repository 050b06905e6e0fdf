#include "queues.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "packets.h"

namespace soft {

void SpinLock::lock() {
  while (taken.test_and_set(std::memory_order_acquire)) {
    sched_yield();
  }
}

void CompletionQueue::push(const Entry& entry) {
  uint64_t at = produced.load(std::memory_order_relaxed);
  if (at - polled.load(std::memory_order_acquire) == ring.size()) {
    overrun = true;
    return;
  }
  ring[at % ring.size()] = entry;
  produced.store(at + 1, std::memory_order_release);
}

int CompletionQueue::poll(int max, Completion* to) {
  if (overrun) {
    return -1;
  }
  if (polled.load(std::memory_order_relaxed) == produced.load(std::memory_order_acquire)) {
    return 0;
  }
  std::lock_guard<SpinLock> held(polling);
  int count = 0;
  uint64_t at = polled.load(std::memory_order_relaxed);
  uint64_t end = produced.load(std::memory_order_acquire);
  for (; at != end && count < max; at++) {
    Entry& entry = ring[at % ring.size()];
    if (entry.pair != nullptr) {
      to[count++] = entry.completion;
      if (entry.sendsDone > entry.pair->sendsFree.load(std::memory_order_relaxed)) {
        entry.pair->sendsFree.store(entry.sendsDone, std::memory_order_release);
      }
    }
  }
  polled.store(at, std::memory_order_release);
  return count;
}

void CompletionQueue::forget(const QueuePair* pair) {
  std::lock_guard<SpinLock> held(polling);
  for (uint64_t at = polled; at != produced; at++) {
    Entry& entry = ring[at % ring.size()];
    if (entry.pair == pair) {
      entry.pair = nullptr;
    }
  }
}

int ReceiveQueue::post(const ReceiveRequest& request) {
  uint64_t at = posted.load(std::memory_order_relaxed);
  if (request.count > 1 || request.count < 0) {
    return EINVAL;
  }
  if (at - taken.load(std::memory_order_acquire) >= entries.size()) {
    return ENOMEM;
  }
  ReceiveEntry& entry = entries[at % entries.size()];
  entry.id = request.id;
  entry.address = request.count == 0 ? 0 : request.pieces[0].address;
  entry.length = request.count == 0 ? 0 : request.pieces[0].length;
  entry.key = request.count == 0 ? 0 : request.pieces[0].localKey;
  posted.store(at + 1, std::memory_order_release);
  return 0;
}

ReceiveEntry ReceiveQueue::take() {
  uint64_t at = taken.load(std::memory_order_relaxed);
  ReceiveEntry entry = entries[at % entries.size()];
  taken.store(at + 1, std::memory_order_release);
  return entry;
}

QueuePair::QueuePair(const PairLimits& limits, SharedReceives* shared)
    : object(),
      limits(limits),
      sends(limits.sends),
      ownReceives(std::max(1u, limits.receives)),
      receives(shared == nullptr ? ownReceives : shared->queue) {}

// Reads and atomic operations need places for answers, and memory for them.
static bool isValid(const SendRequest& request, uint32_t reads) {
  if ((request.flags & FENCE) != 0) {
    return false;
  }
  if (request.opcode <= SEND) {
    return request.count == 0 || request.count == 1;
  }
  bool complete = !isAtomic(request.opcode) ||
                  (request.count == 1 && request.pieces[0].length == sizeof(uint64_t));
  return isAnswered(request.opcode) && complete && request.count >= 0 && request.count <= 1 &&
         reads > 0 && (request.flags & INLINE) == 0;
}

// A place becomes free when a completion of this or a later request is polled, as on a NIC.
int QueuePair::post(const SendRequest& request) {
  if (state < READY_TO_SEND || !isValid(request, reads)) {
    return EINVAL;
  }
  uint64_t at = sendsPosted.load(std::memory_order_relaxed);
  if (at - sendsFree.load(std::memory_order_acquire) >= sends.size()) {
    return ENOMEM;
  }
  SendEntry& entry = sends[at % sends.size()];
  entry.id = request.id;
  entry.opcode = request.opcode;
  entry.flags = request.flags | (signalAll ? SIGNALED : 0u);
  entry.immediate = request.immediate;
  entry.remote = request.remote;
  entry.remoteKey = isAtomic(request.opcode) ? request.atomic.remoteKey : request.remoteKey;
  entry.local = request.count == 0 ? 0 : request.pieces[0].address;
  entry.bytes = request.count == 0 ? 0 : request.pieces[0].length;
  entry.key = request.count == 0 ? 0 : request.pieces[0].localKey;
  if ((entry.flags & INLINE) != 0) {
    if (entry.bytes > limits.inlineBytes) {
      return EINVAL;
    }
    memcpy(entry.content, reinterpret_cast<const void*>(entry.local), entry.bytes);
  } else if (isAtomic(entry.opcode)) {
    memcpy(entry.content, &request.atomic.operands, sizeof(Operands));
  }
  entry.packets = std::max(1u, (entry.bytes + MTU - 1) / MTU);
  entry.firstPacket = nextFirstPacket;
  nextFirstPacket += entry.packets;
  sendsPosted.store(at + 1, std::memory_order_release);
  return 0;
}

int QueuePair::post(const ReceiveRequest& request) {
  bool own = &receives == &ownReceives;
  return state == RESET || !own ? EINVAL : ownReceives.post(request);
}

static uint32_t completionOpcode(uint32_t opcode) {
  switch (opcode) {
    case SEND: return SENT;
    case READ: return READ_HERE;
    case COMPARE_AND_SWAP: return COMPARED;
    case FETCH_AND_ADD: return ADDED;
    default: return WRITTEN;
  }
}

void QueuePair::completeSend(uint32_t status) {
  const SendEntry& entry = send(sendsDone);
  sendsDone++;
  if (status == SUCCESS && (entry.flags & SIGNALED) == 0) {
    return;
  }
  Completion completion = {};
  completion.id = entry.id;
  completion.status = status;
  completion.opcode = completionOpcode(entry.opcode);
  completion.bytes = entry.bytes;
  completion.pair = object.number;
  reinterpret_cast<CompletionQueue*>(object.sendQueue)->push({completion, this, sendsDone});
}

bool QueuePair::beginReceive() {
  if (receives.empty()) {
    return false;
  }
  message = receives.take();
  messageBytes = 0;
  arriving = true;
  return true;
}

void QueuePair::completeReceive(uint32_t status, uint32_t opcode, uint32_t bytes,
                                uint32_t immediate) {
  arriving = false;
  Completion completion = {};
  completion.id = message.id;
  completion.status = status;
  completion.opcode = opcode;
  completion.bytes = bytes;
  completion.immediate = immediate;
  completion.pair = object.number;
  completion.flags = opcode == WRITTEN_HERE ? 2 : 0;  // IBV_WC_WITH_IMM
  reinterpret_cast<CompletionQueue*>(object.receiveQueue)->push({completion, this, 0});
}

void QueuePair::fail(uint32_t status) {
  if (sendsDone < sendsPosted.load(std::memory_order_acquire)) {
    completeSend(status);
  }
  stop();
}

void QueuePair::stop() {
  state = ERROR;
  while (sendsDone < sendsPosted.load(std::memory_order_acquire)) {
    completeSend(FLUSHED);
  }
  // Shared receives stay for the other queue pairs.
  while (arriving || (!ownReceives.empty() && beginReceive())) {
    completeReceive(FLUSHED, RECEIVED, 0, 0);
  }
}

}  // namespace soft
