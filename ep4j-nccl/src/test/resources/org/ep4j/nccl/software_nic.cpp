// A network adapter in software, so that NCCL's GIN runs without a network: kernels push
// descriptors into NCCL's queues; NCCL's proxy thread reads them and calls this adapter to put
// bytes and to raise signals. Version 14 of NCCL's plugin interface for remote memory access
// (2.30.7); loaded by NCCL_RMA_PLUGIN.
//
// For ranks that are threads of one process, on GPUs that reach each other: an address is valid for
// all of them, so a put is a copy by the driver. Guarantees, the same as those of a network and no
// more:
//   a context  uses one of two streams at each rank. Copies of different contexts overtake each other
//   a signal   is raised after all earlier copies of its context at this rank, strong or not. Writer of the word:
//              only this adapter, on a stream of the rank that owns it, because other GPUs may not reach that
//              word. The adapter keeps its value; one thread at a time writes, under a lock until completion,
//              so the word only grows
// All ranks register regions in the same order; a region's number finds its counterpart on another
// rank.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace {

typedef unsigned long long u64;

enum Result { SUCCESS = 0, INTERNAL_ERROR = 3 };

// --- the CUDA driver, the functions used here ----------------------------------------------------

typedef int (*GetContext)(void**);
typedef int (*PushContext)(void*);
typedef int (*CreateStream)(void**, unsigned);
typedef int (*DestroyStream)(void*);
typedef int (*Copy)(u64 to, u64 from, size_t bytes, void* stream);
typedef int (*WriteValue)(void* stream, u64 at, uint64_t value, unsigned flags);
typedef int (*CreateEvent)(void**, unsigned);
typedef int (*RecordEvent)(void* event, void* stream);
typedef int (*AskEvent)(void*);

struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  GetContext current = find<GetContext>("cuCtxGetCurrent");
  PushContext push = find<PushContext>("cuCtxPushCurrent_v2");
  GetContext pop = find<GetContext>("cuCtxPopCurrent_v2");
  CreateStream create_stream = find<CreateStream>("cuStreamCreate");
  DestroyStream destroy_stream = find<DestroyStream>("cuStreamDestroy_v2");
  DestroyStream synchronize = find<DestroyStream>("cuStreamSynchronize");
  Copy copy = find<Copy>("cuMemcpyAsync");
  WriteValue write = find<WriteValue>("cuStreamWriteValue64_v2");
  CreateEvent create_event = find<CreateEvent>("cuEventCreate");
  RecordEvent record = find<RecordEvent>("cuEventRecord");
  AskEvent ask = find<AskEvent>("cuEventQuery");
  AskEvent destroy_event = find<AskEvent>("cuEventDestroy_v2");

  template <class F>
  F find(const char* name) const {
    return library == nullptr ? nullptr : (F)dlsym(library, name);
  }

  bool complete() const {
    return current && push && pop && create_stream && destroy_stream && synchronize && copy && write && create_event &&
           record && ask && destroy_event;
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

constexpr unsigned NON_BLOCKING = 1;  // streams that do not wait for the default stream
constexpr unsigned NO_TIMING = 2;     // events
constexpr int NOT_READY = 600;

// Makes the context of a rank current, on a thread of NCCL that may have none.
class InContext {
 public:
  explicit InContext(void* context) { driver().push(context); }
  ~InContext() {
    void* ignored;
    driver().pop(&ignored);
  }
};

// --- ranks and their regions --------------------------------------------------------------------

struct Region {
  u64 number;  // equal on all ranks
  char* address;
  size_t bytes;
};

// One rank of a communicator. `lock` guards the fields that peers look up, except for the last two:
// these are set before any rank has its device communicator, so before any put.
struct Port {
  std::mutex lock;
  std::map<u64, Region*> regions;
  u64 registered = 0;
  void* cuda = nullptr;     // the rank's context
  void* signals = nullptr;  // and a stream of that context
};

struct Communicator {
  Port* own;
  std::vector<Port*> ports;  // by rank

  // Address, at `rank`, of the region that this rank knows as `mine`; nullptr if that region is too
  // short.
  char* reach(uint32_t rank, const Region& mine, u64 offset, size_t bytes) const {
    Port& port = *ports.at(rank);
    std::lock_guard<std::mutex> guard(port.lock);
    auto found = port.regions.find(mine.number);
    bool within = found != port.regions.end() && offset <= found->second->bytes &&
                  bytes <= found->second->bytes - offset;
    return within ? found->second->address + offset : nullptr;
  }
};

// Streams that contexts share. With one stream a context, some would share a hardware queue of the
// GPU with a kernel and be blocked behind it while the kernel waits for their copies.
constexpr int COPY_STREAMS = 2;

// The contexts of a device communicator.
struct Contexts {
  Communicator* communicator;
  void* cuda;
  void* copies[COPY_STREAMS];

  void* stream_of(int context) const { return copies[context % COPY_STREAMS]; }
};

// Complete once the event has been reached; then it raises its signal, if any.
struct Request {
  const Contexts* contexts;
  void* event;
  const Port* target;
  char* word;
  u64 value;
};

std::mutex signal_lock;
std::map<char*, u64> signals;  // value of each word; guarded by the lock

bool raise_signal(const Request& request) {
  InContext in(request.target->cuda);
  void* stream = request.target->signals;
  std::lock_guard<std::mutex> guard(signal_lock);
  u64 sum = signals[request.word] += request.value;
  return driver().write(stream, (u64)request.word, sum, 0) == 0 && driver().synchronize(stream) == 0;
}

int begin_request(const Contexts& contexts, int context, const Port* target, char* word, u64 value,
                  void** request) {
  std::unique_ptr<Request> made(new Request{&contexts, nullptr, target, word, value});
  if (driver().create_event(&made->event, NO_TIMING) != 0 ||
      driver().record(made->event, contexts.stream_of(context)) != 0) {
    return INTERNAL_ERROR;
  }
  *request = made.release();
  return SUCCESS;
}

int copy(const Contexts& contexts, int context, char* to, const char* from, size_t bytes) {
  bool known = to != nullptr && from != nullptr;
  return known && driver().copy((u64)to, (u64)from, bytes, contexts.stream_of(context)) == 0
             ? SUCCESS
             : INTERNAL_ERROR;
}

// --- the interface ------------------------------------------------------------------------------

int init(void** instance, uint64_t, void*) {
  *instance = nullptr;
  return driver().complete() ? SUCCESS : INTERNAL_ERROR;
}

int devices(int* count) {
  *count = 1;
  return SUCCESS;
}

constexpr int HOST_MEMORY = 1;
constexpr int DEVICE_MEMORY = 2;
constexpr int FOR_PROXY = 2;  // this adapter serves NCCL's proxy, not kernels

struct Properties {
  char* name;
  char* pci_path;  // none: a device of the host as a whole
  uint64_t guid;
  int memory;
  int global_registration;
  int flush_after_receives;
  int megabits;
  int port;
  float latency;
  int communicators;
  int receives;
  int kind;
  int version;
  int virtual_count;
  int virtual_devices[8];
  size_t max_message_bytes;
  size_t max_collective_bytes;
  int requests_in_one;
  int16_t rail;
  int16_t plane;
};

int properties(int device, Properties* out) {
  static char name[] = "software";
  memset(out, 0, sizeof(*out));
  out->name = name;
  out->guid = 1;
  out->memory = HOST_MEMORY | DEVICE_MEMORY;
  out->megabits = 100000;
  out->port = 1;
  out->communicators = 1024;
  out->receives = 8;
  out->kind = FOR_PROXY;
  out->virtual_count = 1;
  out->virtual_devices[0] = device;
  out->max_message_bytes = 1 << 30;
  out->max_collective_bytes = 1 << 30;
  out->requests_in_one = 1;
  out->rail = -1;
  out->plane = -1;
  return SUCCESS;
}

// The handle is the port's address, because ranks share the process.
int listen(void*, int, void* handle, void** port) {
  *port = new Port;
  memcpy(handle, port, sizeof(*port));
  return SUCCESS;
}

int connect(void*, void* handles[], int ranks, int, void* port, void** communicator) {
  Communicator* made = new Communicator{(Port*)port, {}};
  for (int r = 0; r < ranks; r++) {
    Port* other;
    memcpy(&other, handles[r], sizeof(other));
    made->ports.push_back(other);
  }
  *communicator = made;
  return SUCCESS;
}

struct Wanted {
  int contexts;
  int traffic_class;
  int rank_stride;
};

int create_context(void* communicator, Wanted*, void** contexts) {
  std::unique_ptr<Contexts> made(new Contexts{(Communicator*)communicator, nullptr, {}});
  Port& port = *made->communicator->own;
  bool good = driver().current(&made->cuda) == 0 && made->cuda != nullptr;
  if (good && port.signals == nullptr) {
    port.cuda = made->cuda;
    good = driver().create_stream(&port.signals, NON_BLOCKING) == 0;
  }
  for (void*& stream : made->copies) {
    good = good && driver().create_stream(&stream, NON_BLOCKING) == 0;
  }
  if (!good) {
    for (void* stream : made->copies) {
      if (stream != nullptr) {
        driver().destroy_stream(stream);
      }
    }
    return INTERNAL_ERROR;
  }
  *contexts = made.release();
  return SUCCESS;
}

int add_region(void* communicator, void* data, size_t bytes, int, uint64_t, void** region) {
  Port& port = *((Communicator*)communicator)->own;
  std::lock_guard<std::mutex> guard(port.lock);
  Region* made = new Region{port.registered++, (char*)data, bytes};
  port.regions[made->number] = made;
  *region = made;
  return SUCCESS;
}

int add_region_of_file(void*, void*, size_t, int, uint64_t, int, uint64_t, void**) {
  return INTERNAL_ERROR;  // not among the capabilities of this adapter
}

int remove_region(void* communicator, void* region) {
  Region* old = (Region*)region;
  Port& port = *((Communicator*)communicator)->own;
  {
    std::lock_guard<std::mutex> guard(port.lock);
    port.regions.erase(old->number);
  }
  {
    // The next user of this memory has signals that begin at 0.
    std::lock_guard<std::mutex> guard(signal_lock);
    signals.erase(signals.lower_bound(old->address), signals.lower_bound(old->address + old->bytes));
  }
  delete old;
  return SUCCESS;
}

int destroy_context(void* contexts) {
  std::unique_ptr<Contexts> old((Contexts*)contexts);
  InContext in(old->cuda);
  for (void* stream : old->copies) {
    driver().destroy_stream(stream);
  }
  return SUCCESS;
}

// Ports and their streams stay: a peer may still look up a region, or raise a signal.
int close_communicator(void* communicator) {
  delete (Communicator*)communicator;
  return SUCCESS;
}

int close_listen(void*) { return SUCCESS; }

int put(void* contexts, int context, uint64_t source, void* source_region, size_t bytes, uint64_t target,
        void* target_region, uint32_t rank, void** request) {
  const Contexts& made = *(Contexts*)contexts;
  InContext in(made.cuda);
  char* there = made.communicator->reach(rank, *(Region*)target_region, target, bytes);
  int copied = copy(made, context, there, ((Region*)source_region)->address + source, bytes);
  return copied == SUCCESS ? begin_request(made, context, nullptr, nullptr, 0, request) : copied;
}

constexpr uint32_t INCREMENT = 1;

int put_signal(void* contexts, int context, uint64_t source, void* source_region, size_t bytes,
               uint64_t target, void* target_region, uint32_t rank, uint64_t signal, void* signal_region,
               uint64_t value, uint32_t operation, bool, void** request) {
  const Contexts& made = *(Contexts*)contexts;
  InContext in(made.cuda);
  if (bytes > 0) {
    char* there = made.communicator->reach(rank, *(Region*)target_region, target, bytes);
    int copied = copy(made, context, there, ((Region*)source_region)->address + source, bytes);
    if (copied != SUCCESS) {
      return copied;
    }
  }
  char* word = made.communicator->reach(rank, *(Region*)signal_region, signal, sizeof(u64));
  if (word == nullptr) {
    return INTERNAL_ERROR;
  }
  const Port* other = made.communicator->ports.at(rank);
  return begin_request(made, context, other, word, operation == INCREMENT ? 1 : value, request);
}

int get(void* contexts, int context, uint64_t remote, void* remote_region, size_t bytes, uint64_t local,
        void* local_region, uint32_t rank, void** request) {
  const Contexts& made = *(Contexts*)contexts;
  InContext in(made.cuda);
  char* there = made.communicator->reach(rank, *(Region*)remote_region, remote, bytes);
  int copied = copy(made, context, ((Region*)local_region)->address + local, there, bytes);
  return copied == SUCCESS ? begin_request(made, context, nullptr, nullptr, 0, request) : copied;
}

// The bytes of a get have arrived once its request is complete.
int flush(void*, int, void*, uint32_t, void** request) {
  *request = nullptr;
  return SUCCESS;
}

int test(void*, void* request, int* done) {
  std::unique_ptr<Request> asked((Request*)request);
  InContext in(asked->contexts->cuda);
  int state = driver().ask(asked->event);
  *done = state == 0;
  if (state == NOT_READY) {
    asked.release();
    return SUCCESS;
  }
  driver().destroy_event(asked->event);
  return state == 0 && (asked->word == nullptr || raise_signal(*asked)) ? SUCCESS : INTERNAL_ERROR;
}

int finalize(void*) { return SUCCESS; }

struct Interface {
  const char* name;
  decltype(&init) init_;
  decltype(&devices) devices_;
  decltype(&properties) properties_;
  decltype(&listen) listen_;
  decltype(&connect) connect_;
  decltype(&create_context) create_context_;
  decltype(&add_region) add_region_;
  decltype(&add_region_of_file) add_region_of_file_;
  decltype(&remove_region) remove_region_;
  decltype(&destroy_context) destroy_context_;
  decltype(&close_communicator) close_communicator_;
  decltype(&close_listen) close_listen_;
  decltype(&put) put_;
  decltype(&put_signal) put_signal_;
  decltype(&get) get_;
  decltype(&flush) flush_;
  decltype(&test) test_;
  int (*progress)(void*);               // unused
  int (*last_error)(void*, bool*);      // unused: errors are returned by each call
  decltype(&finalize) finalize_;
};

}  // namespace

extern "C" const Interface ncclRmaPlugin_v14 = {
    "software",      init,         devices,         properties,         listen,
    connect,         create_context, add_region,    add_region_of_file, remove_region,
    destroy_context, close_communicator, close_listen, put,             put_signal,
    get,             flush,        test,            nullptr,            nullptr,
    finalize};
