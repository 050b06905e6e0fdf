// Registered memory of this process, found by its keys.
#pragma once

#include <cstdint>

#include "abi.h"

namespace soft {

struct Registration {
  MemoryObject object;
  uint32_t access;
  bool gpu;
};

// Registers memory; null with errno if the process has none at this address. `gpu`: the address is
// that of a GPU.
Registration* registerMemory(DomainObject* domain, uint64_t address, uint64_t bytes,
                             uint32_t access, bool gpu);
void deregister(Registration* registration);

// The registration of a key of a domain, if it has this access and holds all these bytes.
const Registration* permitted(const DomainObject* domain, uint32_t key, uint64_t address,
                              uint64_t bytes, uint32_t access);

// Copies bytes; false if the memory cannot be reached any more.
bool store(const Registration& registration, uint64_t to, const uint8_t* from, uint64_t bytes);
bool load(const Registration& registration, uint8_t* to, uint64_t from, uint64_t bytes);

}  // namespace soft
