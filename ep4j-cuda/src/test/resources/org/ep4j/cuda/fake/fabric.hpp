// NVLink between hosts as the fake has it: memory that fabric handles share, and what NVML knows of clusters.
#pragma once

#include "recorder.hpp"

#include <memory>
#include <sys/mman.h>
#include <unistd.h>

constexpr int FABRIC_TYPE = 8;  // CU_MEM_HANDLE_TYPE_FABRIC
constexpr int FABRIC_HANDLE_BYTES = 64;
constexpr int NVML_VERSION_MISMATCH = 25;
constexpr int REGISTERED_WITH_FABRIC = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED

// nvmlGpuFabricInfo_v2_t
struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

// Pages that several mappings share, alive while one of them or a handle is.
class SharedPages {
 public:
  explicit SharedPages(Word bytes) : file(memfd_create("fabric", MFD_CLOEXEC)) {
    if (ftruncate(file, bytes) != 0) {
      std::abort();
    }
  }
  SharedPages(const SharedPages&) = delete;
  ~SharedPages() { close(file); }

  bool map(Word address, Word bytes) const {
    return mmap((void*)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  }

 private:
  int file;
};

struct Fabric {
  std::map<Word, std::shared_ptr<SharedPages>> shared;  // by handle, of exporters and of importers
  std::map<Word, int> clusters;                          // by device
  int state = REGISTERED_WITH_FABRIC;
  int status = 0;
};

inline Fabric& fabric() {
  static Fabric* everything = new Fabric;  // alive until the process ends
  return *everything;
}

// CUmemAllocationProp::requestedHandleTypes
inline int requested_types(const void* properties) { return ((const int*)properties)[1]; }
