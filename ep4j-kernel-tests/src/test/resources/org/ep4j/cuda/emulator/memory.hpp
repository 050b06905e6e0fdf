// Memory that kernels may access. Addresses that pass through functions of ptx.cuh are checked
// against it; plain writes beyond an end are found afterwards, in the guard behind it.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace emulator {

// Context of reports: the case, and the running thread, if any.
inline std::string about;
inline std::string (*caller)() = nullptr;

// Ranks of each node of a world; empty: the world draws them.
inline std::vector<unsigned> node_sizes;

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::printf("%s\nFAILED: ", about.c_str());
  std::vprintf(format, arguments);
  std::printf("%s\n", caller == nullptr ? "" : caller().c_str());
  std::fflush(stdout);
  va_end(arguments);
  std::_Exit(1);
}

constexpr int EVERYBODY = -1;

class Memory {
 public:
  // Whether kernels may use memory that was not allocated here, whose bounds the caller checks.
  bool has_foreign = false;

  ~Memory() {
    for (auto& [at, part] : parts) {
      std::free((void*)at);
    }
  }

  // For the kernels of one rank, or EVERYBODY. Holds garbage.
  template <class T = char>
  T* allocate(size_t count, const std::string& name, int owner) {
    size_t bytes = count * sizeof(T);
    char* at = (char*)std::aligned_alloc(ALIGNMENT, (bytes + 2 * GUARD - 1) / GUARD * GUARD);
    std::memset(at, RUBBISH, bytes);
    std::memset(at + bytes, GUARDED, GUARD);
    parts[at] = Part{bytes, name, owner};
    return (T*)at;
  }

  template <class T>
  T* zeroed(size_t count, const std::string& name, int owner) {
    return (T*)std::memset(allocate<T>(count, name, owner), 0, count * sizeof(T));
  }

  void release(void* at) {
    auto found = parts.find((char*)at);
    check_guard(*found);
    last = nullptr;
    parts.erase(found);
    std::free(at);
  }

  // A name for words inside a part, for reports.
  void label(const void* at, const std::string& name) { labels[(const char*)at] = name; }

  void check(const void* at, size_t bytes, int rank, const char* what) const {
    if (last != nullptr && (char*)at >= last->first && (char*)at + bytes <= last->first + last->second.bytes &&
        (last->second.owner == EVERYBODY || last->second.owner == rank)) {
      return;
    }
    auto found = parts.upper_bound((char*)at);
    if (found != parts.begin()) {
      --found;
      const Part& part = found->second;
      if ((char*)at + bytes <= found->first + part.bytes) {
        if (part.owner == EVERYBODY || part.owner == rank) {
          last = &*found;
          return;
        }
        fail("%s: memory of another rank: %s", what, describe(at).c_str());
      }
    }
    if (has_foreign) {
      return;
    }
    fail("%s: %zu bytes at a bad address: %s", what, bytes, describe(at).c_str());
  }

  void check_guards() const {
    for (auto& part : parts) {
      check_guard(part);
    }
  }

  std::string describe(const void* at) const {
    auto found = parts.upper_bound((char*)at);
    if (found == parts.begin()) {
      return "below all memory";
    }
    --found;
    std::string text = found->second.name + " (" + std::to_string(found->second.bytes) +
                       " bytes) + " + std::to_string((char*)at - found->first);
    auto label = labels.upper_bound((const char*)at);
    if (label != labels.begin() && (--label)->first >= found->first) {
      text += ", " + label->second + " + " + std::to_string((const char*)at - label->first);
    }
    return text;
  }

 private:
  static constexpr size_t ALIGNMENT = 1024;
  static constexpr size_t GUARD = 1024;
  static constexpr int RUBBISH = 0xa5;
  static constexpr int GUARDED = 0xc3;

  struct Part {
    size_t bytes;
    std::string name;
    int owner;
  };

  std::map<char*, Part> parts;
  mutable const std::pair<char* const, Part>* last = nullptr;  // what the previous check found
  std::map<const char*, std::string> labels;

  static void check_guard(const std::pair<char* const, Part>& part) {
    for (size_t i = 0; i < GUARD; i++) {
      if (part.first[part.second.bytes + i] != (char)GUARDED) {
        fail("written beyond the end, at + %zu: %s (%zu bytes)", part.second.bytes + i,
             part.second.name.c_str(), part.second.bytes);
      }
    }
  }
};

}  // namespace emulator
