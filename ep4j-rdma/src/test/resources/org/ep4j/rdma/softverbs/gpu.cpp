#include "gpu.h"

#include <dlfcn.h>

#include <cstdlib>

namespace soft {

namespace {

constexpr int CONTEXT_OF_POINTER = 1;
constexpr int MEMORY_TYPE_OF_POINTER = 2;
constexpr unsigned DEVICE_MEMORY = 2;

// The functions of the driver that this device calls.
struct Driver {
  int (*attribute)(void*, int, uint64_t) = nullptr;
  int (*setContext)(void*) = nullptr;
  int (*toDevice)(uint64_t, const void*, size_t) = nullptr;
  int (*toHost)(void*, uint64_t, size_t) = nullptr;

  Driver() {
    const char* named = getenv("EP4J_CUDA_DRIVER");
    void* library = dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      find(attribute, library, "cuPointerGetAttribute");
      find(setContext, library, "cuCtxSetCurrent");
      find(toDevice, library, "cuMemcpyHtoD_v2");
      find(toHost, library, "cuMemcpyDtoH_v2");
    }
  }

  template <typename Function>
  static void find(Function& function, void* library, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  bool complete() const { return attribute && setContext && toDevice && toHost; }
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

// Makes the context of the memory that of this thread.
bool enter(uint64_t address) {
  void* context = nullptr;
  return driver().complete() && driver().attribute(&context, CONTEXT_OF_POINTER, address) == 0 &&
         driver().setContext(context) == 0;
}

}  // namespace

bool isGpuMemory(uint64_t address) {
  unsigned type = 0;
  return driver().complete() && driver().attribute(&type, MEMORY_TYPE_OF_POINTER, address) == 0 &&
         type == DEVICE_MEMORY;
}

bool copyToGpu(uint64_t to, const void* from, uint64_t bytes) {
  return enter(to) && driver().toDevice(to, from, bytes) == 0;
}

bool copyFromGpu(void* to, uint64_t from, uint64_t bytes) {
  return enter(from) && driver().toHost(to, from, bytes) == 0;
}

}  // namespace soft
