// A fake of the CUDA driver: no GPU. Device memory is host memory, kernels do not run, and all work of a
// stream happens at once, unless the stream is being captured or a test holds the work back. It refuses what
// the driver refuses: calls without a context, unknown handles, copies outside of memory.
#include "fabric.hpp"
#include "recorder.hpp"

#include <sys/mman.h>

Fake& fake() {
  static Fake* everything = new Fake;  // alive until the process ends
  return *everything;
}

namespace {

constexpr int DEVICES = 2;
constexpr Word FIRST_CONTEXT = 0xc00;

thread_local std::vector<Word> contexts;

// Captures of this thread that have begun and not ended: calls that would wait for work are forbidden.
thread_local int capturing = 0;

// Whether the thread may make such calls all the same: CU_STREAM_CAPTURE_MODE_RELAXED.
constexpr int RELAXED = 2;
thread_local int capture_mode = 0;

// Why the thread cannot allocate now, or copy and wait; SUCCESS if it can.
int waiting_call() {
  return contexts.empty() || contexts.back() == 0 ? INVALID_CONTEXT
         : capturing > 0 && capture_mode != RELAXED  ? CAPTURE_UNSUPPORTED
                                                     : SUCCESS;
}

bool has_context() { return !contexts.empty() && contexts.back() != 0; }

struct Function {
  Word module;
  std::string name;
  const KernelRule* rule;
};

// By handle. Names and rules stay valid, because records refer to them.
std::map<Word, Function>& functions() {
  static auto* all = new std::map<Word, Function>;
  return *all;
}

const KernelRule* rule_of(const std::string& name) {
  for (const KernelRule& rule : fake().rules) {
    if (name.ends_with(rule.suffix)) {
      return &rule;
    }
  }
  return nullptr;
}

using Work = std::function<int()>;

std::map<Word, std::vector<Work>>& captures() {
  static auto* all = new std::map<Word, std::vector<Work>>;
  return *all;
}

std::map<Word, std::vector<Work>>& graphs() {
  static auto* all = new std::map<Word, std::vector<Work>>;
  return *all;
}

bool is_stream(Word stream) { return stream == 0 || alive(Kind::STREAM, stream); }

int enqueue(Word stream, Work work) {
  if (!has_context()) {
    return INVALID_CONTEXT;
  }
  if (!is_stream(stream)) {
    return INVALID_HANDLE;
  }
  auto capture = captures().find(stream);
  if (capture != captures().end()) {
    capture->second.push_back(work);
    return SUCCESS;
  }
  if (fake().held) {
    fake().waiting.push_back(work);
    return SUCCESS;
  }
  return work();
}

Word allocated(Kind kind, Word bytes) {
  // Pages of its own, at an address that no memory had before: a copy to freed memory is noticed.
  void* memory = mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 0;
  }
  std::memset(memory, 0xa5, bytes);  // undefined content
  fake().live[(Word)memory] = {kind, bytes};
  return (Word)memory;
}

int freed(Kind kind, Word address) {
  auto found = fake().live.find(address);
  Word bytes = found == fake().live.end() ? 0 : found->second.bytes;
  int result = released(kind, address);
  if (result == SUCCESS) {
    madvise((void*)address, bytes, MADV_DONTNEED);
  }
  return result;
}

int copy(Word target, Word source, Word bytes) {
  std::memcpy((void*)target, (const void*)source, bytes);
  return SUCCESS;
}

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  Word stream, attributes;
  unsigned attribute_count;
};

int run(const KernelRule* rule, const char* parameters) {
  auto parameter = [&](Word offset) {
    Word value;
    std::memcpy(&value, parameters + offset, sizeof value);
    return value;
  };
  for (const Store& store : rule->stores) {
    Word address = parameter(store.address_parameter);
    Word value = store.value_parameter < 0 ? store.constant : parameter(store.value_parameter);
    if (address == 0 || (store.value_parameter >= 0 && value == 0)) {
      continue;
    }
    if (!inside_memory(address + store.offset, sizeof value)) {
      return INVALID_VALUE;
    }
    __atomic_store_n((Word*)(address + store.offset), value, __ATOMIC_RELEASE);
  }
  return SUCCESS;
}

}  // namespace

extern "C" {

// Control by tests.

void fake_reset() {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().calls.clear();
  fake().live.clear();
  fake().retained.clear();
  captures().clear();
  fake().rules.clear();
  fake().rules.reserve(64);  // functions refer to rules
  fake().recording = true;
  fake().failing = 0;
  fake().held = false;
  fake().waiting.clear();
  fabric() = {};
}

// The NVLink cluster of a device; 0: it has none but that of its host.
void fake_cluster(int device, int cluster) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fabric().clusters[device] = cluster;
}

// What NVML reports of the registration of all devices with their fabric.
void fake_registration(int state, int status) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fabric().state = state;
  fabric().status = status;
}

void fake_forget_calls() {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().calls.clear();
}

void fake_record(int on) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().recording = on != 0;
}

void fake_fail(const char* function, Word nth, int code) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().failing_function = function;
  fake().failing = nth;
  fake().failure = code;
}

// Copies the calls so far in their order, `room` of them at most, and returns how many there are: other
// threads may call the driver meanwhile.
Word fake_calls(Call* out, Word room) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  const std::vector<Call>& calls = fake().calls;
  std::copy_n(calls.begin(), std::min(room, (Word)calls.size()), out);
  return (Word)calls.size();
}

// Copies kind and handle of all objects, of `room` of them at most, and returns how many there are.
Word fake_live(Word* out, Word room) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  Word copied = 0;
  for (const auto& [handle, object] : fake().live) {
    if (copied < room) {
      out[2 * copied] = (Word)object.kind;
      out[2 * copied + 1] = handle;
      copied++;
    }
  }
  return (Word)fake().live.size();
}

// Writes start and size of the memory that holds an address; zeros if none does.
void fake_memory(Word address, Word* out) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  auto found = memory_of(address);
  bool known = found != fake().live.end();
  out[0] = known ? found->first : 0;
  out[1] = known ? found->second.bytes : 0;
}

void fake_kernel(const char* suffix, Word parameter_bytes) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().rules.push_back({suffix, parameter_bytes, {}});
}

void fake_store(const char* suffix, Word address, Word offset, Word parameter, Word constant) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  for (KernelRule& rule : fake().rules) {
    if (rule.suffix == suffix) {
      rule.stores.push_back({address, offset, parameter, constant});
    }
  }
}

void fake_hold(int on) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  fake().held = on != 0;
  if (!on) {
    for (Work& work : fake().waiting) {
      work();
    }
    fake().waiting.clear();
  }
}

// Errors and devices. Not recorded: they change nothing.

int cuGetErrorName(int code, const char** out) {
  *out = code == INVALID_VALUE     ? "CUDA_ERROR_INVALID_VALUE"
         : code == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
         : code == INVALID_HANDLE  ? "CUDA_ERROR_INVALID_HANDLE"
                                   : "CUDA_ERROR_OF_THE_FAKE";
  return SUCCESS;
}

int cuGetErrorString(int, const char** out) {
  *out = "from the fake driver";
  return SUCCESS;
}

int cuInit(unsigned) { return SUCCESS; }

int cuDriverGetVersion(int* out) {
  *out = 13000;
  return SUCCESS;
}

int cuDeviceGetCount(int* out) {
  *out = DEVICES;
  return SUCCESS;
}

int cuDeviceGet(int* out, int ordinal) {
  *out = ordinal;
  return SUCCESS;
}

int cuDeviceGetName(char* out, int bytes, int) {
  std::strncpy(out, "fake driver, no GPU", bytes);
  return SUCCESS;
}

int cuDeviceTotalMem_v2(Word* out, int) {
  *out = Word(80) << 30;
  return SUCCESS;
}

// Sizes of an H100, so that the engine chooses as it does there.
int cuDeviceGetAttribute(int* out, int attribute, int) {
  static const std::map<int, int> values = {
      {13, 1980000}, {16, 132}, {38, 50 << 20}, {39, 2048},   {75, 9},  {76, 0}, {81, 228 << 10}, {95, 1},
      {97, 227 << 10}, {103, 1}, {118, 100},     {120, 1},    {124, 0}, {128, 1}, {134, 0},
  };
  auto found = values.find(attribute);
  if (found == values.end()) {
    return INVALID_VALUE;
  }
  *out = found->second;
  return SUCCESS;
}

int cuDeviceGetPCIBusId(char* out, int bytes, int device) {
  std::strncpy(out, device == 0 ? "0000:01:00.0" : "0000:02:00.0", bytes);
  return SUCCESS;
}

int cuDeviceCanAccessPeer(int* out, int, int) {
  *out = 1;
  return SUCCESS;
}

int cuDeviceGetP2PAttribute(int* out, int, int, int) {
  *out = 1;
  return SUCCESS;
}

// Contexts.

int cuDevicePrimaryCtxRetain(Word* out, int device) {
  return call(__func__, [&](Call&) {
    *out = FIRST_CONTEXT + device;
    if (fake().retained[device]++ == 0) {
      fake().live[*out] = {Kind::CONTEXT, 0};
    }
    return SUCCESS;
  }, device);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  return call(__func__, [&](Call&) {
    if (fake().retained[device] == 0) {
      return INVALID_CONTEXT;
    }
    if (--fake().retained[device] == 0) {
      fake().live.erase(FIRST_CONTEXT + device);
    }
    return SUCCESS;
  }, device);
}

int cuCtxSetCurrent(Word context) {
  return call(__func__, [&](Call&) {
    if (!alive(Kind::CONTEXT, context)) {
      return INVALID_CONTEXT;
    }
    if (contexts.empty()) {
      contexts.push_back(context);
    }
    contexts.back() = context;
    return SUCCESS;
  }, context);
}

int cuCtxGetCurrent(Word* out) {
  *out = contexts.empty() ? 0 : contexts.back();
  return SUCCESS;
}

int cuCtxPushCurrent_v2(Word context) {
  return call(__func__, [&](Call&) {
    if (!alive(Kind::CONTEXT, context)) {
      return INVALID_CONTEXT;
    }
    contexts.push_back(context);
    return SUCCESS;
  }, context);
}

int cuCtxPopCurrent_v2(Word* out) {
  return call(__func__, [&](Call&) {
    if (contexts.empty()) {
      return INVALID_CONTEXT;
    }
    *out = contexts.back();
    contexts.pop_back();
    return SUCCESS;
  });
}

int cuCtxSynchronize() {
  return call(__func__, [](Call&) { return has_context() ? SUCCESS : INVALID_CONTEXT; });
}

int cuCtxEnablePeerAccess(Word context, unsigned) {
  return call(__func__, [](Call&) { return has_context() ? SUCCESS : INVALID_CONTEXT; }, context);
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return SUCCESS;
}

// Memory.

int cuMemAlloc_v2(Word* out, Word bytes) {
  return call(__func__, [&](Call& record) {
    if (int refused = waiting_call()) {
      return refused;
    }
    *out = record.arguments[1] = allocated(Kind::DEVICE_MEMORY, bytes);
    return int(*out == 0 ? INVALID_VALUE : SUCCESS);
  }, bytes);
}

int cuMemFree_v2(Word address) {
  return call(__func__, [&](Call&) {
    return has_context() ? freed(Kind::DEVICE_MEMORY, address) : INVALID_CONTEXT;
  }, address);
}

int cuMemGetInfo_v2(Word* free, Word* total) {
  *free = *total = Word(80) << 30;
  return SUCCESS;
}

int cuMemGetAddressRange_v2(Word* base, Word* size, Word address) {
  return call(__func__, [&](Call&) {
    auto found = memory_of(address);
    if (found == fake().live.end()) {
      return NOT_FOUND;
    }
    *base = found->first;
    *size = found->second.bytes;
    return SUCCESS;
  }, address);
}

int cuMemHostAlloc(Word* out, Word bytes, unsigned flags) {
  return call(__func__, [&](Call& record) {
    if (int refused = waiting_call()) {
      return refused;
    }
    *out = record.arguments[2] = allocated(Kind::HOST_MEMORY, bytes);
    return int(*out == 0 ? INVALID_VALUE : SUCCESS);
  }, bytes, flags);
}

int cuMemFreeHost(Word address) {
  return call(__func__, [&](Call&) { return freed(Kind::HOST_MEMORY, address); }, address);
}

int cuMemHostRegister_v2(Word address, Word bytes, unsigned) {
  return call(__func__, [&](Call&) {
    fake().live[address] = {Kind::REGISTERED, bytes};
    return SUCCESS;
  }, address, bytes);
}

int cuMemHostUnregister(Word address) {
  return call(__func__, [&](Call&) { return released(Kind::REGISTERED, address); }, address);
}

int cuMemHostGetDevicePointer_v2(Word* out, Word address, unsigned) {
  return call(__func__, [&](Call&) {
    *out = address;
    return inside_memory(address, 1) ? SUCCESS : INVALID_VALUE;
  }, address);
}

int cuMemcpyHtoD_v2(Word target, Word source, Word bytes) {
  return call(__func__, [&](Call&) {
    int refused = inside_memory(target, bytes) ? waiting_call() : INVALID_VALUE;
    return refused ? refused : copy(target, source, bytes);
  }, target, source, bytes);
}

int cuMemcpyDtoH_v2(Word target, Word source, Word bytes) {
  return call(__func__, [&](Call&) {
    int refused = inside_memory(source, bytes) ? waiting_call() : INVALID_VALUE;
    return refused ? refused : copy(target, source, bytes);
  }, target, source, bytes);
}

int cuMemcpyHtoDAsync_v2(Word target, Word source, Word bytes, Word stream) {
  return call(__func__, [&](Call&) {
    return inside_memory(target, bytes) ? enqueue(stream, [=] { return copy(target, source, bytes); }) : INVALID_VALUE;
  }, target, source, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(Word target, Word source, Word bytes, Word stream) {
  return call(__func__, [&](Call&) {
    return inside_memory(source, bytes) ? enqueue(stream, [=] { return copy(target, source, bytes); }) : INVALID_VALUE;
  }, target, source, bytes, stream);
}

int cuMemcpyAsync(Word target, Word source, Word bytes, Word stream) {
  return call(__func__, [&](Call&) {
    return inside_memory(target, bytes) && inside_memory(source, bytes)
               ? enqueue(stream, [=] { return copy(target, source, bytes); })
               : INVALID_VALUE;
  }, target, source, bytes, stream);
}

int cuMemsetD8Async(Word address, unsigned char value, Word count, Word stream) {
  return call(__func__, [&](Call&) {
    return inside_memory(address, count) ? enqueue(stream, [=] {
      std::memset((void*)address, value, count);
      return SUCCESS;
    }) : INVALID_VALUE;
  }, address, value, count, stream);
}

int cuMemsetD32Async(Word address, unsigned value, Word count, Word stream) {
  return call(__func__, [&](Call&) {
    return inside_memory(address, count * 4) ? enqueue(stream, [=] {
      for (Word i = 0; i < count; i++) {
        ((unsigned*)address)[i] = value;
      }
      return SUCCESS;
    }) : INVALID_VALUE;
  }, address, value, count, stream);
}

int cuPointerGetAttributes(unsigned count, const int* attributes, void** targets, Word address) {
  auto found = memory_of(address);
  if (found == fake().live.end()) {
    return SUCCESS;  // as the driver does: unknown memory has no attributes
  }
  for (unsigned i = 0; i < count; i++) {
    switch (attributes[i]) {
      case 2: *(int*)targets[i] = found->second.kind == Kind::HOST_MEMORY ? 1 : 2; break;
      case 11: *(Word*)targets[i] = found->first; break;
      case 12: *(Word*)targets[i] = found->second.bytes; break;
      default: break;
    }
  }
  return SUCCESS;
}

// Streams, events, graphs.

int cuStreamCreateWithPriority(Word* out, unsigned flags, int priority) {
  return call(__func__, [&](Call& record) {
    if (!has_context()) {
      return INVALID_CONTEXT;
    }
    *out = record.arguments[2] = created(Kind::STREAM);
    return SUCCESS;
  }, flags, priority);
}

int cuStreamDestroy_v2(Word stream) {
  return call(__func__, [&](Call&) { return released(Kind::STREAM, stream); }, stream);
}

int cuStreamSynchronize(Word stream) {
  return call(__func__, [&](Call&) {
    return is_stream(stream) ? waiting_call() : INVALID_HANDLE;
  }, stream);
}

int cuStreamQuery(Word stream) {
  return call(__func__, [&](Call&) {
    return !is_stream(stream) ? INVALID_HANDLE : fake().waiting.empty() ? SUCCESS : NOT_READY;
  }, stream);
}

int cuStreamWaitEvent(Word stream, Word event, unsigned) {
  return call(__func__, [&](Call&) {
    return is_stream(stream) && alive(Kind::EVENT, event) ? SUCCESS : INVALID_HANDLE;
  }, stream, event);
}

int cuStreamBeginCapture_v2(Word stream, int mode) {
  return call(__func__, [&](Call&) {
    if (!is_stream(stream)) {
      return INVALID_HANDLE;
    }
    captures()[stream];
    capturing++;
    return SUCCESS;
  }, stream, mode);
}

int cuStreamEndCapture(Word stream, Word* out) {
  return call(__func__, [&](Call&) {
    auto capture = captures().find(stream);
    if (capture == captures().end()) {
      return INVALID_VALUE;
    }
    *out = created(Kind::GRAPH);
    graphs()[*out] = capture->second;
    captures().erase(capture);
    capturing--;
    return SUCCESS;
  }, stream);
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  return call(__func__, [&](Call&) {
    std::swap(*mode, capture_mode);
    return SUCCESS;
  });
}

int cuStreamIsCapturing(Word stream, int* out) {
  return call(__func__, [&](Call&) {
    *out = captures().count(stream) != 0;
    return is_stream(stream) ? SUCCESS : INVALID_HANDLE;
  }, stream);
}

int cuEventCreate(Word* out, unsigned flags) {
  return call(__func__, [&](Call& record) {
    *out = record.arguments[1] = created(Kind::EVENT);
    return has_context() ? SUCCESS : INVALID_CONTEXT;
  }, flags);
}

int cuEventDestroy_v2(Word event) {
  return call(__func__, [&](Call&) { return released(Kind::EVENT, event); }, event);
}

int cuEventRecord(Word event, Word stream) {
  return call(__func__, [&](Call&) {
    return is_stream(stream) && alive(Kind::EVENT, event) ? SUCCESS : INVALID_HANDLE;
  }, event, stream);
}

int cuEventQuery(Word event) {
  return call(__func__, [&](Call&) {
    return !alive(Kind::EVENT, event) ? INVALID_HANDLE : fake().waiting.empty() ? SUCCESS : NOT_READY;
  }, event);
}

int cuEventSynchronize(Word event) {
  return call(__func__, [&](Call&) { return alive(Kind::EVENT, event) ? SUCCESS : INVALID_HANDLE; }, event);
}

int cuEventElapsedTime(float* out, Word, Word) {
  *out = 0;
  return SUCCESS;
}

int cuGraphInstantiateWithFlags(Word* out, Word graph, Word) {
  return call(__func__, [&](Call&) {
    if (!alive(Kind::GRAPH, graph)) {
      return INVALID_HANDLE;
    }
    *out = created(Kind::GRAPH_EXEC);
    graphs()[*out] = graphs()[graph];
    return SUCCESS;
  }, graph);
}

int cuGraphLaunch(Word graph, Word stream) {
  return call(__func__, [&](Call&) {
    if (!alive(Kind::GRAPH_EXEC, graph)) {
      return INVALID_HANDLE;
    }
    int result = SUCCESS;
    for (const Work& work : graphs()[graph]) {
      int each = enqueue(stream, work);
      result = result == SUCCESS ? each : result;
    }
    return Result(result);
  }, graph, stream);
}

int cuGraphUpload(Word graph, Word stream) {
  return call(__func__, [&](Call&) { return alive(Kind::GRAPH_EXEC, graph) ? SUCCESS : INVALID_HANDLE; }, graph, stream);
}

int cuGraphExecDestroy(Word graph) {
  return call(__func__, [&](Call&) { return released(Kind::GRAPH_EXEC, graph); }, graph);
}

int cuGraphDestroy(Word graph) {
  return call(__func__, [&](Call&) { return released(Kind::GRAPH, graph); }, graph);
}

int cuGraphGetNodes(Word graph, Word*, Word* count) {
  return call(__func__, [&](Call&) {
    *count = (Word)graphs()[graph].size();
    return SUCCESS;
  }, graph);
}

// Modules and launches.

int cuModuleLoadDataEx(Word* out, Word, unsigned, Word, Word) {
  return call(__func__, [&](Call& record) {
    if (!has_context()) {
      return INVALID_CONTEXT;
    }
    *out = record.arguments[0] = created(Kind::MODULE);
    return SUCCESS;
  });
}

int cuModuleUnload(Word module) {
  return call(__func__, [&](Call&) { return has_context() ? released(Kind::MODULE, module) : INVALID_CONTEXT; }, module);
}

int cuModuleGetFunction(Word* out, Word module, const char* name) {
  return call(__func__, [&](Call& record) {
    if (!alive(Kind::MODULE, module)) {
      return INVALID_HANDLE;
    }
    const KernelRule* rule = rule_of(name);
    if (rule == nullptr) {
      return NOT_FOUND;
    }
    *out = record.arguments[1] = fake().next_handle;
    fake().next_handle += 0x10;
    functions()[*out] = {module, name, rule};
    return SUCCESS;
  }, module);
}

int cuModuleGetGlobal_v2(Word*, Word*, Word module, const char*) {
  return call(__func__, [](Call&) { return NOT_FOUND; }, module);
}

int cuFuncGetAttribute(int* out, int attribute, Word function) {
  return call(__func__, [&](Call&) {
    *out = attribute == 0 ? 1024 : attribute == 4 ? 64 : attribute == 6 ? 90 : 0;
    return functions().count(function) ? SUCCESS : INVALID_HANDLE;
  }, attribute, function);
}

int cuFuncSetAttribute(Word function, int attribute, int value) {
  return call(__func__, [&](Call&) {
    return functions().count(function) ? SUCCESS : INVALID_HANDLE;
  }, function, attribute, value);
}

// Every kernel has one structure as parameter.
int cuFuncGetParamInfo(Word function, Word index, Word* offset, Word* size) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  auto found = functions().find(function);
  if (found == functions().end() || index > 0) {
    return INVALID_VALUE;
  }
  *offset = 0;
  *size = found->second.rule->parameter_bytes;
  return SUCCESS;
}

int cuFuncLoad(Word function) {
  return call(__func__, [&](Call&) { return functions().count(function) ? SUCCESS : INVALID_HANDLE; }, function);
}

// Recorded: name, parameters, blocks, threads, shared bytes, stream, launch attributes.
int cuLaunchKernelEx(const LaunchConfig* config, Word function, void** parameters, void**) {
  return call(__func__, [&](Call& record) {
    auto found = functions().find(function);
    if (found == functions().end() || !alive(Kind::MODULE, found->second.module)) {
      return (int)INVALID_HANDLE;
    }
    const KernelRule* rule = found->second.rule;
    record.arguments[0] = (Word)found->second.name.c_str();
    if (!fake().recording && captures().empty() && !fake().held) {
      return run(rule, (const char*)parameters[0]);
    }
    // A record keeps its copy of the parameters until the process ends.
    char* copied = (char*)std::malloc(rule->parameter_bytes);
    std::memcpy(copied, parameters[0], rule->parameter_bytes);
    record.arguments[1] = (Word)copied;
    return enqueue(config->stream, [=] { return run(rule, copied); });
  }, 0, 0, config->grid[0], config->block[0], config->shared, config->stream, config->attribute_count);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, Word, int, Word) {
  *out = 1;
  return SUCCESS;
}

int cuOccupancyMaxActiveClusters(int* out, Word, Word) {
  *out = 1;
  return SUCCESS;
}

// Sharing. A handle of an allocation is its address, and so is what it opens: other processes are threads.

struct IpcHandle {
  char reserved[64];
};

int cuIpcGetMemHandle(IpcHandle* out, Word address) {
  return call(__func__, [&](Call&) {
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &address, sizeof address);
    return alive(Kind::DEVICE_MEMORY, address) ? SUCCESS : INVALID_HANDLE;
  }, address);
}

int cuIpcOpenMemHandle_v2(Word* out, IpcHandle handle, unsigned) {
  return call(__func__, [&](Call& record) {
    std::memcpy(out, &handle, sizeof *out);
    record.arguments[0] = *out;
    return !has_context() ? INVALID_CONTEXT : alive(Kind::DEVICE_MEMORY, *out) ? SUCCESS : INVALID_HANDLE;
  });
}

int cuIpcCloseMemHandle(Word address) {
  return call(__func__, [](Call&) { return has_context() ? SUCCESS : INVALID_CONTEXT; }, address);
}

int cuMemAddressReserve(Word* out, Word bytes, Word, Word, Word) {
  return call(__func__, [&](Call& record) {
    *out = record.arguments[1] = allocated(Kind::ADDRESSES, bytes);
    return SUCCESS;
  }, bytes);
}

int cuMemAddressFree(Word address, Word bytes) {
  return call(__func__, [&](Call&) {
    return alive(Kind::MAPPING, address + 1) ? INVALID_VALUE : freed(Kind::ADDRESSES, address);
  }, address, bytes);
}

int cuMemCreate(Word* out, Word bytes, Word properties, Word) {
  return call(__func__, [&](Call& record) {
    *out = record.arguments[1] = created(Kind::HANDLE);
    if (requested_types((const void*)properties) == FABRIC_TYPE) {
      fabric().shared[*out] = std::make_shared<SharedPages>(bytes);
    }
    return SUCCESS;
  }, bytes);
}

int cuMemRelease(Word handle) {
  return call(__func__, [&](Call&) {
    fabric().shared.erase(handle);
    return released(Kind::HANDLE, handle);
  }, handle);
}

// A mapping is known by the address behind its start: the start is that of the reserved addresses.
int cuMemMap(Word address, Word bytes, Word, Word handle, Word) {
  return call(__func__, [&](Call&) {
    if (!alive(Kind::ADDRESSES, address) || !alive(Kind::HANDLE, handle)) {
      return INVALID_VALUE;
    }
    auto pages = fabric().shared.find(handle);
    if (pages != fabric().shared.end() && !pages->second->map(address, bytes)) {
      return INVALID_VALUE;
    }
    fake().live[address + 1] = {Kind::MAPPING, 0};
    return SUCCESS;
  }, address, bytes, handle);
}

int cuMemUnmap(Word address, Word bytes) {
  return call(__func__, [&](Call&) {
    int result = released(Kind::MAPPING, address + 1);
    if (result == SUCCESS) {
      mmap((void*)address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    return result;
  }, address, bytes);
}

int cuMemSetAccess(Word address, Word bytes, Word, Word) {
  return call(__func__, [&](Call&) { return alive(Kind::MAPPING, address + 1) ? SUCCESS : INVALID_VALUE; }, address, bytes);
}

// A fabric handle names the handle of the exporter, which must live when it is imported: other hosts are threads.
int cuMemExportToShareableHandle(Word* out, Word handle, int type, Word) {
  return call(__func__, [&](Call&) {
    bool of_fabric = fabric().shared.count(handle) != 0;
    if (!alive(Kind::HANDLE, handle) || of_fabric != (type == FABRIC_TYPE)) {
      return INVALID_HANDLE;
    }
    std::memset(out, 0, of_fabric ? FABRIC_HANDLE_BYTES : 4);
    std::memcpy(out, &handle, of_fabric ? sizeof handle : 4);
    return SUCCESS;
  }, handle);
}

int cuMemImportFromShareableHandle(Word* out, Word shared, int type) {
  return call(__func__, [&](Call&) {
    if (type != FABRIC_TYPE) {
      *out = created(Kind::HANDLE);
      return SUCCESS;
    }
    auto exported = fabric().shared.find(*(const Word*)shared);
    if (exported == fabric().shared.end()) {
      return INVALID_HANDLE;
    }
    *out = created(Kind::HANDLE);
    fabric().shared[*out] = exported->second;
    return SUCCESS;
  });
}

int cuMemGetAllocationGranularity(Word* out, Word, int) {
  *out = 2 << 20;
  return SUCCESS;
}

int cuMemGetHandleForAddressRange(Word, Word address, Word, int, Word) {
  return call(__func__, [](Call&) { return INVALID_VALUE; }, address);
}

// The management library, which the fake is as well.

int nvmlInit_v2() { return SUCCESS; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Word* out) {
  *out = std::strcmp(bus, "0000:01:00.0") == 0 ? 0 : 1;
  return SUCCESS;
}

int nvmlDeviceGetGpuFabricInfoV(Word device, FabricInfo* info) {
  std::lock_guard<std::recursive_mutex> guard(fake().lock);
  if (info->version != (sizeof *info | 2 << 24)) {
    return NVML_VERSION_MISMATCH;
  }
  std::memset(info->cluster, 0, sizeof info->cluster);
  info->cluster[15] = (unsigned char)fabric().clusters[device];
  info->status = fabric().status;
  info->clique = 3;
  info->state = (unsigned char)fabric().state;
  return SUCCESS;
}

}  // extern "C"
