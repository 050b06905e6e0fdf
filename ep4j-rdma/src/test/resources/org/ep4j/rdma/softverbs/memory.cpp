#include "memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "gpu.h"

namespace soft {

constexpr uint64_t PAGE = 4096;
constexpr uint32_t KEY_STEP = 0x101;  // keys differ in each of their bytes, and never return soon

// The lock of the engine protects both: see engine.h.
static std::unordered_map<uint32_t, Registration*> registrations;
static uint32_t nextKey = 0x10001;

static bool isMapped(uint64_t address, uint64_t bytes) {
  uint64_t first = address & ~(PAGE - 1);
  uint64_t end = (address + bytes + PAGE - 1) & ~(PAGE - 1);
  unsigned char resident[256];
  for (uint64_t at = first; at < end; at += sizeof(resident) * PAGE) {
    uint64_t part = end - at < sizeof(resident) * PAGE ? end - at : sizeof(resident) * PAGE;
    if (mincore(reinterpret_cast<void*>(at), part, resident) != 0) {
      return false;
    }
  }
  return true;
}

Registration* registerMemory(DomainObject* domain, uint64_t address, uint64_t bytes,
                             uint32_t access, bool gpu) {
  if ((access & (REMOTE_WRITE | REMOTE_ATOMIC)) != 0 && (access & LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  if (!gpu && (address + bytes < address || !isMapped(address, bytes))) {
    errno = EFAULT;
    return nullptr;
  }
  nextKey += KEY_STEP;
  auto* made = new Registration{};
  made->object = {domain->context, domain, address, bytes, nextKey, nextKey, nextKey};
  made->access = access;
  made->gpu = gpu;
  registrations[nextKey] = made;
  return made;
}

void deregister(Registration* registration) {
  registrations.erase(registration->object.localKey);
  delete registration;
}

const Registration* permitted(const DomainObject* domain, uint32_t key, uint64_t address,
                              uint64_t bytes, uint32_t access) {
  auto found = registrations.find(key);
  if (found == registrations.end()) {
    return nullptr;
  }
  const Registration* one = found->second;
  const MemoryObject& object = one->object;
  bool inside = address >= object.address && bytes <= object.length &&
                address - object.address <= object.length - bytes;
  return object.domain == domain && inside && (one->access & access) == access ? one : nullptr;
}

bool store(const Registration& registration, uint64_t to, const uint8_t* from, uint64_t bytes) {
  if (registration.gpu) {
    return copyToGpu(to, from, bytes);
  }
  if (bytes == sizeof(uint64_t) && to % sizeof(uint64_t) == 0) {
    // Aligned words are not torn.
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    reinterpret_cast<std::atomic<uint64_t>*>(to)->store(word, std::memory_order_release);
  } else {
    memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  return true;
}

bool load(const Registration& registration, uint8_t* to, uint64_t from, uint64_t bytes) {
  if (registration.gpu) {
    return copyFromGpu(to, from, bytes);
  }
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return true;
}

}  // namespace soft
