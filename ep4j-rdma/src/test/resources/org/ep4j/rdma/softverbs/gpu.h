// Memory of GPUs through the CUDA driver, which is loaded when the first memory is registered.
#pragma once

#include <cstdint>

namespace soft {

// Whether an address is memory of a GPU; false without a driver.
bool isGpuMemory(uint64_t address);

// Copies and waits; false if the driver reports an error.
bool copyToGpu(uint64_t to, const void* from, uint64_t bytes);
bool copyFromGpu(void* to, uint64_t from, uint64_t bytes);

}  // namespace soft
