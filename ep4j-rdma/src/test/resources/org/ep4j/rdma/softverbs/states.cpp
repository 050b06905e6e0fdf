#include "states.h"

#include <cerrno>

namespace soft {

static bool has(int mask, int needed) { return (mask & needed) == needed; }

static int initialise(Engine& engine, QueuePair& pair, const PairAttributes& to) {
  int port = engine.ports.find(pair.object.context->device->name, to.port);
  if (port < 0) {
    return EINVAL;
  }
  if (engine.ports.all[port].refused() == INIT) {
    return ENOMEM;
  }
  pair.port = port;
  pair.access = to.access;
  engine.fabric.pair(pair.object.number).port = static_cast<uint32_t>(port);
  pair.state = INIT;
  return 0;
}

// Microseconds of the 5 bits of a receiver-not-ready timer; only some are as exact as in the
// specification, and 0 is the longest.
static uint32_t notReadyTimer(uint8_t code) {
  return code == 0 ? 655360 : code < 2 ? 10 : 10u << ((code - 1) / 2);
}

static int readyToReceive(Engine& engine, QueuePair& pair, const PairAttributes& to) {
  if (to.peerReads > MAX_ANSWERS) {
    return EINVAL;
  }
  const Port& own = engine.ports.all[pair.port];
  int port = to.isGlobal ? engine.ports.reach(own, to.gidIndex, to.gid) : -1;
  if (port < 0) {
    return ETIMEDOUT;  // as where no host answers for the address
  }
  pair.peerPort = port;
  pair.peer = to.peer;
  pair.peerReads = to.peerReads;
  SharedPair& shared = engine.fabric.pair(pair.object.number);
  shared.firstPacket = to.receivePacket;
  shared.notReadyTimer = notReadyTimer(to.notReadyTimer);
  own.record(pair.object.number, to.serviceLevel, to.trafficClass);
  pair.state = READY_TO_RECEIVE;
  shared.peer = to.peer;
  return 0;
}

static int readyToSend(QueuePair& pair, const PairAttributes& to) {
  if (to.reads > MAX_ANSWERS) {
    return EINVAL;
  }
  pair.reads = to.reads;
  pair.sendPacket = to.sendPacket;
  pair.timeout = to.timeout == 0 ? 0 : 4096ll << to.timeout;
  pair.retryLimit = to.retries;
  pair.notReadyLimit = to.notReadyRetries;
  pair.state = READY_TO_SEND;
  return 0;
}

int modify(Engine& engine, QueuePair& pair, const PairAttributes& to, int mask) {
  if (!has(mask, M_STATE)) {
    return EINVAL;
  }
  uint32_t from = pair.state;
  if (pair.port >= 0 && engine.ports.all[pair.port].refused() == to.state) {
    return ENOMEM;  // as from a device without room for another connection
  }
  if (to.state == ERROR) {
    pair.stop();
    return 0;
  }
  if (from == RESET && to.state == INIT && has(mask, M_PARTITION | M_PORT | M_ACCESS)) {
    return initialise(engine, pair, to);
  }
  if (from == INIT && to.state == READY_TO_RECEIVE &&
      has(mask, M_PATH | M_MTU | M_PEER | M_RECEIVE_PACKET | M_PEER_READS | M_NOT_READY_TIMER)) {
    return readyToReceive(engine, pair, to);
  }
  if (from == READY_TO_RECEIVE && to.state == READY_TO_SEND &&
      has(mask, M_TIMEOUT | M_RETRIES | M_NOT_READY_RETRIES | M_SEND_PACKET | M_READS)) {
    return readyToSend(pair, to);
  }
  return EINVAL;
}

}  // namespace soft
