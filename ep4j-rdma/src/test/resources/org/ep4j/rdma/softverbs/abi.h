// Structures and numbers of the public interface of libibverbs, as far as the device has them. They
// lie where VerbsLayouts of ep4j-rdma, checked against the headers, says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft {

struct Piece {
  uint64_t address;
  uint32_t length;
  uint32_t localKey;
};

struct Operands {
  uint64_t compareOrAdd, swap;
};

struct SendRequest {
  uint64_t id;
  SendRequest* next;
  Piece* pieces;
  int32_t count;
  uint32_t opcode;
  uint32_t flags;
  uint32_t immediate;
  uint64_t remote;
  union {
    uint32_t remoteKey;
    struct {
      Operands operands;
      uint32_t remoteKey;
    } atomic;
  };
  uint8_t unused[56];
};

struct ReceiveRequest {
  uint64_t id;
  ReceiveRequest* next;
  Piece* pieces;
  int32_t count;
};

struct Completion {
  uint64_t id;
  uint32_t status;
  uint32_t opcode;
  uint32_t vendorError;
  uint32_t bytes;
  uint32_t immediate;
  uint32_t pair;
  uint32_t peer;
  uint32_t flags;
  uint64_t unused;
};

struct DeviceObject {
  void* operations[2];
  uint32_t nodeType;
  uint32_t transport;
  char name[64];
  char unused[64 + 256 + 256];
};

struct ContextObject {
  DeviceObject* device;
  void* operations[32];
  int32_t files[2];
  int32_t vectors;
  uint8_t unused[52];
};

constexpr int POLL = 11;
constexpr int POST_SHARED_RECEIVE = 20;
constexpr int POST_SEND = 25;
constexpr int POST_RECEIVE = 26;

struct DomainObject {
  ContextObject* context;
  uint32_t handle;
};

struct MemoryObject {
  ContextObject* context;
  DomainObject* domain;
  uint64_t address;
  uint64_t length;
  uint32_t handle;
  uint32_t localKey;
  uint32_t remoteKey;
};

struct QueueObject {
  ContextObject* context;
  void* channel;
  void* user;
  uint32_t handle;
  int32_t entries;
  uint8_t unused[96];
};

struct SharedReceivesObject {
  ContextObject* context;
  void* user;
  DomainObject* domain;
  uint32_t handle;
  uint8_t unused[100];
};

struct SharedReceivesRequest {
  void* user;
  uint32_t receives, pieces, limit;
};

struct PairObject {
  ContextObject* context;
  void* user;
  DomainObject* domain;
  QueueObject* sendQueue;
  QueueObject* receiveQueue;
  SharedReceivesObject* shared;
  uint32_t handle;
  uint32_t number;
  uint32_t state;
  uint32_t type;
  uint8_t unused[96];
};

struct PairLimits {
  uint32_t sends, receives, sendPieces, receivePieces, inlineBytes;
};

struct PairRequest {
  void* user;
  QueueObject* sendQueue;
  QueueObject* receiveQueue;
  SharedReceivesObject* shared;
  PairLimits limits;
  uint32_t type;
  int32_t signalAll;
};

struct PairAttributes {
  uint32_t state, currentState, mtu, migration, key, receivePacket, sendPacket, peer, access;
  PairLimits limits;
  uint8_t gid[16];
  uint32_t flow;
  uint8_t gidIndex, hops, trafficClass, gap1;
  uint16_t lid;
  uint8_t serviceLevel, pathBits, rate, isGlobal, pathPort, gap2;
  uint64_t alternative[4];
  uint16_t partition, unused1;
  uint8_t unused2[2], reads, peerReads, notReadyTimer, port, timeout, retries, notReadyRetries;
  uint8_t unused3[11];
};

struct PortAttributes {
  uint32_t state, maxMtu, activeMtu;
  int32_t gids;
  uint32_t capabilities, maxBytes, unused1[2];
  uint16_t partitions, lid, unused2;
  uint8_t unused3[8], link, flags;
};

struct DeviceAttributes {
  uint8_t unused1[80];
  uint64_t maxRegion;
  uint8_t unused2[20];
  int32_t maxPairs, maxRequests, unused3, maxPieces, unused4, maxQueues, maxEntries;
  uint8_t unused5[8];
  int32_t maxReads, unused6, maxReadsOfAll, maxPeerReads, unused7, atomics;
  uint8_t unused8[44];
  int32_t maxShared, maxSharedReceives, maxSharedPieces;
  uint8_t unused9[3], ports;
};

static_assert(sizeof(SendRequest) == 128 && offsetof(SendRequest, remote) == 40 &&
                  offsetof(SendRequest, atomic.remoteKey) == 64,
              "ibv_send_wr");
static_assert(sizeof(ReceiveRequest) == 32, "ibv_recv_wr");
static_assert(sizeof(Completion) == 48, "ibv_wc");
static_assert(sizeof(ContextObject) == 328, "ibv_context");
static_assert(sizeof(MemoryObject) == 48 && offsetof(MemoryObject, localKey) == 36, "ibv_mr");
static_assert(sizeof(SharedReceivesObject) == 128, "ibv_srq");
static_assert(sizeof(SharedReceivesRequest) == 24, "ibv_srq_init_attr");
static_assert(sizeof(PairObject) == 160 && offsetof(PairObject, number) == 52, "ibv_qp");
static_assert(sizeof(PairRequest) == 64 && offsetof(PairRequest, type) == 52, "ibv_qp_init_attr");
static_assert(sizeof(PairAttributes) == 144 && offsetof(PairAttributes, gid) == 56, "ibv_qp_attr");
static_assert(offsetof(PairAttributes, lid) == 80 && offsetof(PairAttributes, pathPort) == 86,
              "ibv_ah_attr");
static_assert(offsetof(PairAttributes, partition) == 120 && offsetof(PairAttributes, port) == 129,
              "ibv_qp_attr");
static_assert(offsetof(PortAttributes, lid) == 34 && offsetof(PortAttributes, link) == 46,
              "ibv_port_attr");
static_assert(sizeof(DeviceAttributes) == 232 && offsetof(DeviceAttributes, maxRequests) == 112 &&
                  offsetof(DeviceAttributes, maxEntries) == 132 &&
                  offsetof(DeviceAttributes, maxReads) == 144 &&
                  offsetof(DeviceAttributes, atomics) == 164 &&
                  offsetof(DeviceAttributes, maxShared) == 212 &&
                  offsetof(DeviceAttributes, ports) == 227,
              "ibv_device_attr");

enum State : uint32_t { RESET, INIT, READY_TO_RECEIVE, READY_TO_SEND, ERROR = 6 };
enum Opcode : uint32_t {
  WRITE,
  WRITE_WITH_IMMEDIATE,
  SEND,
  READ = 4,
  COMPARE_AND_SWAP,
  FETCH_AND_ADD
};
enum SendFlag : uint32_t { FENCE = 1, SIGNALED = 2, INLINE = 8 };
enum Access : uint32_t { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4, REMOTE_ATOMIC = 8 };
enum CompletionOpcode : uint32_t {
  SENT = 0,
  WRITTEN = 1,
  READ_HERE = 2,
  COMPARED = 3,
  ADDED = 4,
  RECEIVED = 128,
  WRITTEN_HERE = 129
};

enum Status : uint32_t {
  SUCCESS = 0,
  LOCAL_LENGTH = 1,
  LOCAL_PROTECTION = 4,
  FLUSHED = 5,
  REMOTE_INVALID = 9,
  REMOTE_ACCESS = 10,
  REMOTE_OPERATION = 11,
  RETRIES_EXCEEDED = 12,
  NOT_READY_EXCEEDED = 13
};

enum Mask : int {
  M_STATE = 1,
  M_ACCESS = 1 << 3,
  M_PARTITION = 1 << 4,
  M_PORT = 1 << 5,
  M_PATH = 1 << 7,
  M_MTU = 1 << 8,
  M_TIMEOUT = 1 << 9,
  M_RETRIES = 1 << 10,
  M_NOT_READY_RETRIES = 1 << 11,
  M_RECEIVE_PACKET = 1 << 12,
  M_READS = 1 << 13,
  M_NOT_READY_TIMER = 1 << 15,
  M_SEND_PACKET = 1 << 16,
  M_PEER_READS = 1 << 17,
  M_PEER = 1 << 20
};

}  // namespace soft
