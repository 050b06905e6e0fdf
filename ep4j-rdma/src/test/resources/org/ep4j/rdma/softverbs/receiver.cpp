// The responder of a queue pair: takes packets in order from its ring, checks what they may touch,
// stores their bytes, answers those that ask for some, and acknowledges them.
#include <climits>

#include "engine.h"
#include "memory.h"
#include "packets.h"

namespace soft {

namespace {

class Receiver {
 public:
  Receiver(Engine& engine, QueuePair& pair)
      : engine(engine),
        pair(pair),
        own(engine.fabric.pair(pair.object.number)),
        ring(engine.fabric.ring(pair.object.number)) {}

  bool run(int budget) {
    uint64_t before = own.tail.load(std::memory_order_relaxed);
    uint64_t tail = before;
    while (budget-- > 0 && tail != own.head.load(std::memory_order_acquire)) {
      Packet packet;
      memcpy(&packet, ring + tail % RING_BYTES, sizeof(packet));
      if (packet.arrives > engine.now) {
        engine.at(packet.arrives);
        break;
      }
      if (pair.state == READY_TO_RECEIVE || pair.state == READY_TO_SEND) {
        accept(packet, tail + sizeof(packet));
      }
      tail += inRing(payload(packet.opcode, packet.bytes));
      own.tail.store(tail, std::memory_order_release);
    }
    if (tail != before) {
      engine.notify(engine.fabric.pair(pair.peer).process);
    }
    return tail != before;
  }

 private:
  Engine& engine;
  QueuePair& pair;
  SharedPair& own;
  uint8_t* ring;

  void accept(const Packet& packet, uint64_t at) {
    uint64_t expected = own.expected.load(std::memory_order_relaxed);
    if (packet.to != pair.object.number || packet.from != pair.peer || packet.number < expected) {
      return;  // a stranger's, or one that took effect before: its acknowledgement was lost
    }
    if (packet.number > expected) {
      refuse(OUT_OF_SEQUENCE, expected);
      return;
    }
    pair.refused = false;
    Refusal why = isAnswered(packet.opcode) ? answer(packet, at)
                  : packet.opcode == SEND   ? receive(packet, at)
                                            : written(packet, at);
    if (why == NOTHING) {
      own.expected.store(expected + 1, std::memory_order_release);
    } else {
      refuse(why, expected);
      if (why != NOT_READY) {
        pair.stop();
      }
    }
  }

  // Refuses the expected packet, once until it comes again.
  void refuse(Refusal why, uint64_t expected) {
    if (!pair.refused) {
      pair.refused = true;
      own.refusal = refusal(why, expected);
    }
  }

  Refusal notReady() {
    engine.ports.all[pair.port].count(
        "send_rnr_err", ++engine.fabric.shared().ports[pair.port].notReadySent);
    return NOT_READY;
  }

  Refusal put(const Registration& memory, uint64_t to, uint64_t at, uint64_t bytes) {
    uint64_t part = beforeEnd(at, bytes);
    bool stored = store(memory, to, ring + at % RING_BYTES, part) &&
                  (part == bytes || store(memory, to + part, ring, bytes - part));
    return stored ? NOTHING : FAILED;
  }

  // The memory that a packet of the peer may touch; null if it may not. A message is checked as a whole
  // before its first byte, and again with each packet.
  const Registration* open(const Packet& packet, uint32_t access) const {
    uint64_t bytes = packet.first ? packet.message : packet.bytes;
    return (pair.access & access) == 0 ? nullptr
                                       : permitted(pair.object.domain, packet.remoteKey,
                                                   packet.remote, bytes, access);
  }

  Refusal written(const Packet& packet, uint64_t at) {
    bool announced = packet.opcode == WRITE_WITH_IMMEDIATE && packet.last;
    const Registration* memory = packet.message == 0 ? nullptr : open(packet, REMOTE_WRITE);
    if (packet.message > 0 && memory == nullptr) {
      return NO_ACCESS;
    }
    if (announced && !pair.beginReceive()) {
      return notReady();
    }
    Refusal why = memory == nullptr ? NOTHING : put(*memory, packet.remote, at, packet.bytes);
    if (why != NOTHING) {
      return why;
    }
    if (announced) {
      pair.completeReceive(SUCCESS, WRITTEN_HERE, static_cast<uint32_t>(packet.message),
                           packet.immediate);
    }
    return NOTHING;
  }

  Refusal answer(const Packet& packet, uint64_t at) {
    bool atomic = isAtomic(packet.opcode);
    if (pair.peerReads == 0 || (atomic && packet.remote % sizeof(uint64_t) != 0)) {
      return INVALID;
    }
    if (packet.message == 0) {
      return NOTHING;
    }
    const Registration* memory = open(packet, atomic ? REMOTE_ATOMIC : REMOTE_READ);
    if (memory == nullptr) {
      return NO_ACCESS;
    }
    uint8_t* to = engine.fabric.answer(pair.peer, packet.number);
    bool done = load(*memory, to, packet.remote, packet.bytes) &&
                (!atomic || change(*memory, packet, at, to));
    return done ? NOTHING : FAILED;
  }

  // Atomic for requests to the memory of this process, which its one engine carries out; not for its
  // processors.
  bool change(const Registration& memory, const Packet& packet, uint64_t at, const uint8_t* answer) {
    uint64_t before;
    Operands operands;
    memcpy(&before, answer, sizeof(before));
    memcpy(&operands, ring + at % RING_BYTES, sizeof(operands));
    uint64_t swapped = before == operands.compareOrAdd ? operands.swap : before;
    uint64_t after = packet.opcode == FETCH_AND_ADD ? before + operands.compareOrAdd : swapped;
    return store(memory, packet.remote, reinterpret_cast<const uint8_t*>(&after), sizeof(after));
  }

  Refusal receive(const Packet& packet, uint64_t at) {
    if (packet.first && !pair.beginReceive()) {
      return notReady();
    }
    const ReceiveEntry& entry = pair.message;
    if (packet.message > entry.length) {
      pair.completeReceive(LOCAL_LENGTH, RECEIVED, 0, 0);
      return INVALID;
    }
    if (packet.bytes > 0) {
      // Shared receives lie in the memory of their own domain.
      const DomainObject* domain =
          pair.object.shared == nullptr ? pair.object.domain : pair.object.shared->domain;
      const Registration* memory =
          permitted(domain, entry.key, entry.address, entry.length, LOCAL_WRITE);
      if (memory == nullptr) {
        pair.completeReceive(LOCAL_PROTECTION, RECEIVED, 0, 0);
        return FAILED;
      }
      Refusal why = put(*memory, entry.address + pair.messageBytes, at, packet.bytes);
      if (why != NOTHING) {
        return why;
      }
      pair.messageBytes += packet.bytes;
    }
    if (packet.last) {
      pair.completeReceive(SUCCESS, RECEIVED, static_cast<uint32_t>(packet.message), 0);
    }
    return NOTHING;
  }
};

}  // namespace

bool takeSome(Engine& engine, QueuePair& pair, int packets) {
  SharedPair& own = engine.fabric.pair(pair.object.number);
  return own.tail.load(std::memory_order_relaxed) != own.head.load(std::memory_order_acquire) &&
         Receiver(engine, pair).run(packets);
}

}  // namespace soft
