// The functions of libibverbs that this library exports, and the operations of its devices.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "bucket.h"
#include "engine.h"
#include "gpu.h"
#include "memory.h"
#include "states.h"

using namespace soft;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Domain {
  DomainObject object;
  int users;
};

int pollQueue(CompletionQueue* queue, int max, Completion* to) { return queue->poll(max, to); }

template <typename Target, typename Request>
int post(SpinLock& lock, Target& target, Request* request, Request** refused) {
  std::lock_guard<SpinLock> held(lock);
  int error = 0;
  for (; request != nullptr && error == 0; request = request->next) {
    error = target.post(*request);
    if (error != 0) {
      *refused = request;
    }
  }
  return error;
}

int postSend(QueuePair* pair, SendRequest* request, SendRequest** refused) {
  int error = post(pair->posting, *pair, request, refused);
  Engine::get().wake();
  return error;
}

int postSharedReceive(SharedReceives* shared, ReceiveRequest* request, ReceiveRequest** refused) {
  return post(shared->queue.posting, shared->queue, request, refused);
}

int postReceive(QueuePair* pair, ReceiveRequest* request, ReceiveRequest** refused) {
  int error = post(pair->ownReceives.posting, *pair, request, refused);
  if (pair->state == ERROR) {
    Engine::get().wake();
  }
  return error;
}

}  // namespace

// For children that share pages with a NIC; here there is none.
EXPORT int ibv_fork_init() { return 0; }

EXPORT DeviceObject** ibv_get_device_list(int* count) {
  const char* directory = getenv("SYSFS_PATH");
  std::vector<std::string> names =
      namesIn(directory == nullptr ? "" : std::string(directory) + "/class/infiniband");
  auto** list = static_cast<DeviceObject**>(calloc(names.size() + 1, sizeof(DeviceObject*)));
  for (size_t i = 0; i < names.size(); i++) {
    list[i] = static_cast<DeviceObject*>(calloc(1, sizeof(DeviceObject)));
    strncpy(list[i]->name, names[i].c_str(), sizeof(list[i]->name) - 1);
  }
  if (count != nullptr) {
    *count = static_cast<int>(names.size());
  }
  return list;
}

EXPORT void ibv_free_device_list(DeviceObject** list) {
  for (DeviceObject** device = list; *device != nullptr; device++) {
    free(*device);
  }
  free(list);
}

EXPORT const char* ibv_get_device_name(DeviceObject* device) { return device->name; }

EXPORT ContextObject* ibv_open_device(DeviceObject* device) {
  try {
    Engine::open();
  } catch (const std::exception&) {
    errno = EIO;
    return nullptr;
  }
  auto* context = new ContextObject{};
  context->device = new DeviceObject(*device);
  context->operations[POLL] = reinterpret_cast<void*>(pollQueue);
  context->operations[POST_SHARED_RECEIVE] = reinterpret_cast<void*>(postSharedReceive);
  context->operations[POST_SEND] = reinterpret_cast<void*>(postSend);
  context->operations[POST_RECEIVE] = reinterpret_cast<void*>(postReceive);
  context->files[0] = context->files[1] = -1;
  context->vectors = 1;
  return context;
}

EXPORT int ibv_close_device(ContextObject* context) {
  delete context->device;
  delete context;
  Engine::close();
  return 0;
}

EXPORT int ibv_query_device(ContextObject* context, DeviceAttributes* to) {
  memset(to, 0, sizeof(*to));
  to->maxRegion = UINT64_MAX;
  to->maxPairs = MAX_PAIRS;
  to->maxRequests = MAX_REQUESTS;
  to->maxPieces = 1;
  to->maxQueues = 1 << 16;
  to->maxEntries = MAX_ENTRIES;
  to->maxReads = to->maxPeerReads = MAX_ANSWERS;
  to->maxReadsOfAll = MAX_PAIRS * MAX_ANSWERS;
  to->atomics = 1;  // IBV_ATOMIC_HCA
  to->maxShared = MAX_PAIRS;
  to->maxSharedReceives = MAX_REQUESTS;
  to->maxSharedPieces = 1;
  for (const Port& port : Engine::get().ports.all) {
    to->ports += port.device == context->device->name;
  }
  return 0;
}

EXPORT int ibv_query_port(ContextObject* context, uint8_t number, PortAttributes* to) {
  Engine& engine = Engine::get();
  int port = engine.ports.find(context->device->name, number);
  if (port < 0) {
    return EINVAL;
  }
  memset(to, 0, offsetof(PortAttributes, flags));
  to->state = static_cast<uint32_t>(engine.ports.all[port].state());
  to->maxMtu = to->activeMtu = 5;  // IBV_MTU_4096
  to->gids = static_cast<int32_t>(engine.ports.all[port].gids.size());
  to->maxBytes = MAX_BYTES;
  to->partitions = 1;
  to->link = 2;  // IBV_LINK_LAYER_ETHERNET
  return 0;
}

EXPORT int ibv_query_gid(ContextObject* context, uint8_t number, int index, uint8_t* gid) {
  Engine& engine = Engine::get();
  int port = engine.ports.find(context->device->name, number);
  if (port < 0 || index < 0 || index >= static_cast<int>(engine.ports.all[port].gids.size())) {
    errno = EINVAL;
    return -1;
  }
  memcpy(gid, engine.ports.all[port].gids[index].data(), 16);
  return 0;
}

EXPORT DomainObject* ibv_alloc_pd(ContextObject* context) {
  return &(new Domain{{context, 1}, 0})->object;
}

EXPORT int ibv_dealloc_pd(DomainObject* object) {
  auto* domain = reinterpret_cast<Domain*>(object);
  if (domain->users != 0) {
    return EBUSY;
  }
  delete domain;
  return 0;
}

static MemoryObject* registerFor(DomainObject* domain, uint64_t address, uint64_t bytes, int access,
                                 bool gpu) {
  Engine::Hold hold;
  Registration* made =
      registerMemory(domain, address, bytes, static_cast<uint32_t>(access), gpu);
  if (made == nullptr) {
    return nullptr;
  }
  reinterpret_cast<Domain*>(domain)->users++;
  return &made->object;
}

// Memory of GPUs, too, as with the kernel module that gives NICs their pages.
EXPORT MemoryObject* ibv_reg_mr(DomainObject* domain, uint64_t address, size_t bytes, int access) {
  return registerFor(domain, address, bytes, access, isGpuMemory(address));
}

// Requests name the memory by the address that the GPU has for it, so the file is not needed.
EXPORT MemoryObject* ibv_reg_dmabuf_mr(DomainObject* domain, uint64_t, size_t bytes,
                                       uint64_t address, int, int access) {
  if (!isGpuMemory(address)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return registerFor(domain, address, bytes, access, true);
}

EXPORT int ibv_dereg_mr(MemoryObject* object) {
  Engine::Hold hold;
  reinterpret_cast<Domain*>(object->domain)->users--;
  deregister(reinterpret_cast<Registration*>(object));
  return 0;
}

EXPORT QueueObject* ibv_create_cq(ContextObject* context, int entries, void* user, void* channel,
                                  int) {
  if (entries < 1 || entries > static_cast<int>(MAX_ENTRIES) || channel != nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  auto* queue = new CompletionQueue{};
  queue->object = {context, channel, user, 1, entries, {}};
  queue->ring.resize(static_cast<size_t>(entries));
  return &queue->object;
}

EXPORT int ibv_destroy_cq(QueueObject* object) {
  auto* queue = reinterpret_cast<CompletionQueue*>(object);
  if (queue->users != 0) {
    return EBUSY;
  }
  delete queue;
  return 0;
}

EXPORT SharedReceivesObject* ibv_create_srq(DomainObject* domain,
                                            SharedReceivesRequest* request) {
  if (request->receives < 1 || request->receives > MAX_REQUESTS || request->pieces > 1) {
    errno = EINVAL;
    return nullptr;
  }
  Engine::Hold hold;
  reinterpret_cast<Domain*>(domain)->users++;
  SharedReceivesObject object = {domain->context, request->user, domain, 1, {}};
  return &(new SharedReceives{object, ReceiveQueue(request->receives), 0})->object;
}

EXPORT int ibv_destroy_srq(SharedReceivesObject* object) {
  auto* shared = reinterpret_cast<SharedReceives*>(object);
  Engine::Hold hold;
  if (shared->users != 0) {
    return EBUSY;
  }
  reinterpret_cast<Domain*>(object->domain)->users--;
  delete shared;
  return 0;
}

EXPORT PairObject* ibv_create_qp(DomainObject* domain, PairRequest* request) {
  PairLimits& limits = request->limits;
  if (request->type != 2 /* IBV_QPT_RC */ || limits.sends < 1 || limits.sends > MAX_REQUESTS ||
      limits.receives > MAX_REQUESTS || limits.sendPieces > 1 || limits.receivePieces > 1 ||
      limits.inlineBytes > MAX_INLINE) {
    errno = EINVAL;
    return nullptr;
  }
  Engine& engine = Engine::get();
  uint32_t number = engine.fabric.takePair(0);
  if (number == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* shared = reinterpret_cast<SharedReceives*>(request->shared);
  auto* pair = new QueuePair(limits, shared);
  pair->object.context = domain->context;
  pair->object.user = request->user;
  pair->object.domain = domain;
  pair->object.sendQueue = request->sendQueue;
  pair->object.receiveQueue = request->receiveQueue;
  pair->object.shared = request->shared;
  pair->object.number = pair->object.handle = number;
  pair->object.type = request->type;
  pair->signalAll = request->signalAll != 0;
  Engine::Hold hold;
  if (shared != nullptr) {
    shared->users++;
  }
  reinterpret_cast<Domain*>(domain)->users++;
  reinterpret_cast<CompletionQueue*>(request->sendQueue)->users++;
  reinterpret_cast<CompletionQueue*>(request->receiveQueue)->users++;
  engine.pairs.push_back(pair);
  return &pair->object;
}

EXPORT int ibv_modify_qp(PairObject* pair, PairAttributes* attributes, int mask) {
  Engine::Hold hold;
  return modify(Engine::get(), *reinterpret_cast<QueuePair*>(pair), *attributes, mask);
}

EXPORT int ibv_destroy_qp(PairObject* object) {
  auto* pair = reinterpret_cast<QueuePair*>(object);
  Engine::Hold hold;
  Engine& engine = Engine::get();
  engine.pairs.erase(std::find(engine.pairs.begin(), engine.pairs.end(), pair));
  engine.fabric.freePair(object->number);
  for (QueueObject* each : {object->sendQueue, object->receiveQueue}) {
    auto* queue = reinterpret_cast<CompletionQueue*>(each);
    queue->forget(pair);
    queue->users--;
  }
  if (object->shared != nullptr) {
    reinterpret_cast<SharedReceives*>(object->shared)->users--;
  }
  reinterpret_cast<Domain*>(object->domain)->users--;
  delete pair;
  return 0;
}

EXPORT const char* ibv_wc_status_str(int status) {
  switch (status) {
    case SUCCESS: return "success";
    case LOCAL_LENGTH: return "local length error";
    case LOCAL_PROTECTION: return "local protection error";
    case FLUSHED: return "Work Request Flushed Error";
    case REMOTE_INVALID: return "remote invalid request error";
    case REMOTE_ACCESS: return "remote access error";
    case REMOTE_OPERATION: return "remote operation error";
    case RETRIES_EXCEEDED: return "transport retry counter exceeded";
    case NOT_READY_EXCEEDED: return "RNR retry counter exceeded";
    default: return "unknown";
  }
}

// The bucket of a cable on the clock of a test, see bucket.h: 0 if the bytes have to wait, or the time
// at which they have passed.
EXPORT int64_t soft_verbs_take(int64_t* busyUntil, int64_t now, int64_t bytes, int64_t rate) {
  std::atomic<int64_t> bucket(*busyUntil);
  int64_t retry = 0;
  int64_t passed = ready(bucket, now, retry) ? take(bucket, now, bytes, rate) : 0;
  *busyUntil = bucket;
  return passed;
}
