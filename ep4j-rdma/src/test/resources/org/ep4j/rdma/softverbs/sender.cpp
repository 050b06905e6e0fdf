// The requester of a queue pair: cuts requests into packets, takes acknowledgements and answers, sends
// again from the oldest packet that is missing (go back N), and gives up.
#include "bucket.h"
#include "engine.h"
#include "memory.h"
#include "packets.h"

namespace soft {

namespace {

// What lies between the ports of the two ends.
struct Path {
  bool up;
  double loss;
  int64_t delay;
};

class Sender {
 public:
  Sender(Engine& engine, QueuePair& pair)
      : engine(engine),
        pair(pair),
        end(engine.fabric.pair(pair.peer)),
        own(engine.ports.all[pair.port]),
        other(engine.ports.all[pair.peerPort]) {}

  bool run(int budget) {
    own.refresh(engine.now);
    other.refresh(engine.now);
    path = {own.up && other.up, 1 - (1 - own.loss) * (1 - other.loss), own.delay + other.delay};
    // The other end exists, is connected to this one, and its packets begin where this end's do.
    connected = end.number == pair.peer && end.peer == pair.object.number &&
                end.firstPacket == pair.sendPacket && end.port == uint32_t(pair.peerPort);
    bool worked = path.up && connected && hear();
    if (pair.state != READY_TO_SEND || pair.pausedUntil > engine.now) {
      if (pair.state == READY_TO_SEND) {
        engine.at(pair.pausedUntil);
      }
      return worked;
    }
    while (budget-- > 0 && pair.current < pair.sendsPosted.load(std::memory_order_acquire) &&
           pair.state == READY_TO_SEND && sendPacket()) {
      worked = true;
    }
    countSilence();
    return worked;
  }

 private:
  Engine& engine;
  QueuePair& pair;
  SharedPair& end;
  Port& own;
  Port& other;
  Path path = {};
  bool connected = false;

  // Takes the acknowledgement and the refusal of the other end.
  bool hear() {
    bool worked = false;
    // First the refusal: what it names is behind what was acknowledged by then.
    uint64_t refused = end.refusal.load() == 0 ? 0 : end.refusal.exchange(0);
    uint64_t done = end.expected.load(std::memory_order_acquire);
    if (done > pair.packetsDone && done <= pair.packetsSent) {
      uint64_t before = pair.packetsDone;
      pair.packetsDone = done;
      pair.retries = pair.notReadyRetries = 0;
      pair.deadline = engine.now + pair.timeout;
      while (pair.sendsDone < pair.sendsPosted.load(std::memory_order_acquire)) {
        const SendEntry& entry = pair.send(pair.sendsDone);
        if (isAnswered(entry.opcode) && !collect(entry, before, done)) {
          pair.fail(LOCAL_PROTECTION);
          return true;
        }
        if (entry.firstPacket + entry.packets > done) {
          break;
        }
        pair.completeSend(SUCCESS);
      }
      if (pair.current < pair.sendsDone || position() < done) {
        rewind();
      }
      worked = true;
    }
    if (refused != 0 && pair.state == READY_TO_SEND) {
      refuse(static_cast<Refusal>(refused & 0xff), refused >> 8);
      worked = true;
    }
    return worked;
  }

  // Stores the answers to those of these packets that belong to a request.
  bool collect(const SendEntry& entry, uint64_t from, uint64_t until) {
    uint64_t end = std::min(until, entry.firstPacket + entry.packets);
    for (uint64_t packet = std::max(from, entry.firstPacket); packet < end; packet++) {
      uint64_t offset = (packet - entry.firstPacket) * MTU;
      uint64_t bytes = std::min<uint64_t>(entry.bytes - offset, MTU);
      const Registration* to =
          permitted(pair.object.domain, entry.key, entry.local + offset, bytes, LOCAL_WRITE);
      if (bytes > 0 && (to == nullptr ||
                        !store(*to, entry.local + offset,
                               engine.fabric.answer(pair.object.number, packet), bytes))) {
        return false;
      }
    }
    return true;
  }

  uint64_t position() const {
    return pair.current < pair.sendsPosted.load()
               ? pair.send(pair.current).firstPacket + pair.currentPacket
               : pair.packetsSent;
  }

  void refuse(Refusal why, uint64_t packet) {
    if (packet != pair.packetsDone) {
      return;  // of a packet that was accepted since
    }
    switch (why) {
      case OUT_OF_SEQUENCE:
        rewind();
        break;
      case NOT_READY:
        own.count("rcvd_rnr_err", ++engine.fabric.shared().ports[pair.port].notReadyReceived);
        if (pair.notReadyLimit < 7 && ++pair.notReadyRetries > pair.notReadyLimit) {
          pair.fail(NOT_READY_EXCEEDED);
        } else {
          pair.pausedUntil = engine.now + end.notReadyTimer.load() * 1000ll;
          rewind();
        }
        break;
      case NO_ACCESS:
        pair.fail(REMOTE_ACCESS);
        break;
      case INVALID:
        pair.fail(REMOTE_INVALID);
        break;
      default:
        pair.fail(REMOTE_OPERATION);
    }
  }

  // Sends again from the oldest packet that is not acknowledged.
  void rewind() {
    pair.current = pair.sendsDone;
    pair.currentPacket = 0;
    if (pair.current < pair.sendsPosted.load(std::memory_order_acquire)) {
      uint64_t first = pair.send(pair.current).firstPacket;
      pair.currentPacket = static_cast<uint32_t>(std::max(first, pair.packetsDone) - first);
    }
  }

  // Sends the next packet, or loses it; false if it has to wait.
  bool sendPacket() {
    const SendEntry& entry = pair.send(pair.current);
    uint64_t offset = uint64_t(pair.currentPacket) * MTU;
    uint64_t bytes = std::min<uint64_t>(entry.bytes - offset, MTU);
    bool answered = isAnswered(entry.opcode);
    if (answered && position() - pair.packetsDone >= pair.reads) {
      return false;  // the other end rings when it has answered some
    }
    const Registration* local = nullptr;
    if ((entry.flags & INLINE) == 0 && bytes > 0) {
      uint32_t access = answered ? uint32_t(LOCAL_WRITE) : 0;
      local = permitted(pair.object.domain, entry.key, entry.local, entry.bytes, access);
      if (local == nullptr) {
        return failLocally(LOCAL_PROTECTION);
      }
    }
    uint64_t sent = payload(entry.opcode, bytes);
    uint64_t head = end.head.load(std::memory_order_relaxed);
    bool lost = !path.up || !connected || chance() < path.loss;
    if (!lost && head - end.tail.load(std::memory_order_acquire) + inRing(sent) > RING_BYTES) {
      return false;  // the other end rings when it has taken some
    }
    int64_t arrives = pass(std::max(bytes, sent));
    if (arrives == 0) {
      return false;
    }
    if (pair.packetsSent == pair.packetsDone) {
      pair.deadline = engine.now + pair.timeout;
    }
    if (!lost && !write(entry, offset, bytes, answered ? nullptr : local, head, arrives)) {
      return failLocally(LOCAL_PROTECTION);
    }
    pair.packetsSent = std::max(pair.packetsSent, entry.firstPacket + pair.currentPacket + 1);
    if (++pair.currentPacket == entry.packets) {
      pair.current++;
      pair.currentPacket = 0;
    }
    return true;
  }

  double chance() {
    return path.loss == 0 ? 1 : std::uniform_real_distribution<double>()(engine.random);
  }

  // Passes the cables of both ports. Returns the time of arrival; 0 if they are busy.
  int64_t pass(uint64_t bytes) {
    std::atomic<int64_t>& mine = engine.fabric.shared().ports[pair.port].busyUntil;
    std::atomic<int64_t>& theirs = engine.fabric.shared().ports[pair.peerPort].busyUntil;
    int64_t retry = 0;
    if (!ready(mine, engine.now, retry) || !ready(theirs, engine.now, retry)) {
      engine.at(retry);
      return 0;
    }
    auto size = static_cast<int64_t>(inRing(bytes));
    int64_t sent = take(mine, engine.now, size, own.bytesPerSecond);
    int64_t received = &mine == &theirs ? sent : take(theirs, engine.now, size, other.bytesPerSecond);
    return std::max(sent, received) + path.delay;
  }

  // Requests fail in order: this one after those before it.
  bool failLocally(uint32_t status) {
    if (pair.sendsDone == pair.current) {
      pair.fail(status);
      return true;
    }
    return false;
  }

  bool write(const SendEntry& entry, uint64_t offset, uint64_t bytes, const Registration* from,
             uint64_t head, int64_t arrives) {
    uint8_t* ring = engine.fabric.ring(pair.peer);
    Packet packet = {};
    packet.number = entry.firstPacket + pair.currentPacket;
    packet.remote = entry.remote + offset;
    packet.message = entry.bytes;
    packet.arrives = arrives;
    packet.from = pair.object.number;
    packet.to = pair.peer;
    packet.bytes = static_cast<uint32_t>(bytes);
    packet.remoteKey = entry.remoteKey;
    packet.opcode = entry.opcode;
    packet.immediate = entry.immediate;
    packet.first = pair.currentPacket == 0;
    packet.last = pair.currentPacket + 1 == entry.packets;
    memcpy(ring + head % RING_BYTES, &packet, sizeof(packet));
    uint64_t at = head + sizeof(packet);
    uint64_t sent = payload(entry.opcode, bytes);
    uint64_t part = beforeEnd(at, sent);
    if (from == nullptr) {
      // Inline bytes or operands, of one packet.
      memcpy(ring + at % RING_BYTES, entry.content, part);
      memcpy(ring, entry.content + part, sent - part);
    } else if (!load(*from, ring + at % RING_BYTES, entry.local + offset, part) ||
               (part < bytes && !load(*from, ring, entry.local + offset + part, bytes - part))) {
      return false;
    }
    end.head.store(head + inRing(sent), std::memory_order_release);
    engine.notify(end.process);
    return true;
  }

  // Counts the time without an acknowledgement. Packets that a living process has not taken yet are
  // not lost: a NIC does not wait for a processor, as that process may do.
  void countSilence() {
    if (pair.packetsDone == pair.packetsSent || pair.timeout == 0 || pair.state != READY_TO_SEND) {
      return;
    }
    if (engine.now >= pair.deadline) {
      pair.deadline = engine.now + pair.timeout;
      bool waits = connected && path.up && end.head.load() != end.tail.load() &&
                   engine.alive(end.process);
      if (!waits) {
        if (pair.retryLimit < 7 && ++pair.retries > pair.retryLimit) {
          pair.fail(RETRIES_EXCEEDED);
          return;
        }
        rewind();
        engine.at(engine.now);
      }
    }
    engine.at(pair.deadline);
  }
};

}  // namespace

bool sendSome(Engine& engine, QueuePair& pair, int packets) {
  if (pair.state == ERROR) {
    if (pair.sendsDone < pair.sendsPosted.load(std::memory_order_acquire) ||
        !pair.ownReceives.empty()) {
      pair.stop();  // requests that were posted since
      return true;
    }
    return false;
  }
  if (pair.state != READY_TO_SEND ||
      pair.sendsDone == pair.sendsPosted.load(std::memory_order_acquire)) {
    return false;
  }
  return Sender(engine, pair).run(packets);
}

}  // namespace soft
