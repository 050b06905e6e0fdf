#include "gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <unordered_map>

namespace soft {

namespace {

constexpr int MEMORY_TYPE_OF_POINTER = 2;
constexpr int DEVICE_OF_POINTER = 9;
constexpr unsigned DEVICE_MEMORY = 2;
constexpr unsigned NON_BLOCKING = 1;

// The functions of the driver that this device calls.
struct Driver {
  int (*attribute)(void*, int, uint64_t) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*retainContext)(void**, int) = nullptr;
  int (*setContext)(void*) = nullptr;
  int (*createStream)(void**, unsigned) = nullptr;
  int (*synchronize)(void*) = nullptr;
  int (*toDevice)(uint64_t, const void*, size_t, void*) = nullptr;
  int (*toHost)(void*, uint64_t, size_t, void*) = nullptr;

  Driver() {
    const char* named = getenv("EP4J_CUDA_DRIVER");
    void* library = dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      find(attribute, library, "cuPointerGetAttribute");
      find(device, library, "cuDeviceGet");
      find(retainContext, library, "cuDevicePrimaryCtxRetain");
      find(setContext, library, "cuCtxSetCurrent");
      find(createStream, library, "cuStreamCreate");
      find(synchronize, library, "cuStreamSynchronize");
      find(toDevice, library, "cuMemcpyHtoDAsync_v2");
      find(toHost, library, "cuMemcpyDtoHAsync_v2");
    }
  }

  template <typename Function>
  static void find(Function& function, void* library, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  bool complete() const {
    return attribute && device && retainContext && setContext && createStream && synchronize &&
           toDevice && toHost;
  }
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

// How a thread copies for a GPU. Kernels wait for these copies, so the stream waits for no other one.
// Both stay until the process ends.
struct Copies {
  void* context = nullptr;
  void* stream = nullptr;

  explicit Copies(int ordinal) {
    int handle = 0;
    void* made = nullptr;
    if (driver().device(&handle, ordinal) == 0 &&
        driver().retainContext(&context, handle) == 0 && driver().setContext(context) == 0 &&
        driver().createStream(&made, NON_BLOCKING) == 0) {
      stream = made;
    }
  }
};

// Makes the context of the memory that of this thread; the stream for its copies, or null. Memory that is
// mapped by address has a device, but the driver names no context for it.
void* enter(uint64_t address) {
  thread_local std::unordered_map<int, Copies> known;
  int ordinal = 0;
  if (!driver().complete() || driver().attribute(&ordinal, DEVICE_OF_POINTER, address) != 0) {
    return nullptr;
  }
  const Copies& copies = known.try_emplace(ordinal, ordinal).first->second;
  bool entered = copies.stream != nullptr && driver().setContext(copies.context) == 0;
  return entered ? copies.stream : nullptr;
}

}  // namespace

bool isGpuMemory(uint64_t address) {
  unsigned type = 0;
  return driver().complete() && driver().attribute(&type, MEMORY_TYPE_OF_POINTER, address) == 0 &&
         type == DEVICE_MEMORY;
}

bool copyToGpu(uint64_t to, const void* from, uint64_t bytes) {
  void* stream = enter(to);
  return stream != nullptr && driver().toDevice(to, from, bytes, stream) == 0 &&
         driver().synchronize(stream) == 0;
}

bool copyFromGpu(void* to, uint64_t from, uint64_t bytes) {
  void* stream = enter(from);
  return stream != nullptr && driver().toHost(to, from, bytes, stream) == 0 &&
         driver().synchronize(stream) == 0;
}

}  // namespace soft
