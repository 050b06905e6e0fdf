// Libraries that look for the hardware of a device below /sys instead of SYSFS_PATH. In a process that
// preloads this library their calls of realpath come here, and find the devices of the fabric.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

static constexpr char DEVICES[] = "/sys/class/infiniband/";
static constexpr int ROOT = 4;  // characters of /sys

// Another name in C++, because headers define that of the C library.
extern "C" __attribute__((visibility("default"))) char* softRealPath(const char* path, char* to)
    __asm__("realpath");

extern "C" char* softRealPath(const char* path, char* to) {
  static const auto resolve =
      reinterpret_cast<char* (*)(const char*, char*)>(dlsym(RTLD_NEXT, "realpath"));
  const char* directory = getenv("SYSFS_PATH");
  bool ours =
      directory != nullptr && path != nullptr && strncmp(path, DEVICES, strlen(DEVICES)) == 0;
  return resolve(ours ? (std::string(directory) + (path + ROOT)).c_str() : path, to);
}
