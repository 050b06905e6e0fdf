// What the fake driver remembers: its calls in order, the failures that a test asked for, and what is alive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using Word = std::int64_t;

// Results of the driver that the fake returns by itself.
enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  CAPTURE_UNSUPPORTED = 900,
};

// A call of the driver. Java reads it: FakeDriver.Call.
struct Call {
  const char* function;
  Word result;
  Word arguments[8];
};

enum class Kind : Word {
  CONTEXT, DEVICE_MEMORY, HOST_MEMORY, REGISTERED, STREAM, EVENT, GRAPH, GRAPH_EXEC, MODULE, ADDRESSES, HANDLE, MAPPING,
};

// Something that was created and not yet released. Bytes only for what has an address.
struct Object {
  Kind kind;
  Word bytes;
};

// Stores that stand for a kernel: the word at `address of a parameter + offset` becomes a parameter or a
// constant. A store through a zero address and a store of a zero parameter do not happen.
struct Store {
  Word address_parameter;
  Word offset;
  Word value_parameter;  // -1: the constant
  Word constant;
};

// Kernels whose names end with `suffix`.
struct KernelRule {
  std::string suffix;
  Word parameter_bytes;
  std::vector<Store> stores;
};

struct Fake {
  std::recursive_mutex lock;
  bool recording = true;
  std::vector<Call> calls;
  std::map<Word, Object> live;
  std::map<int, int> retained;  // contexts by device
  std::vector<KernelRule> rules;
  Word next_handle = 0x10000;

  // The failure that a test asked for: the call number `failing` from now on, of `failing_function` or of any.
  std::string failing_function;
  Word failing = 0;
  int failure = SUCCESS;

  // Work that waits for the test.
  bool held = false;
  std::vector<std::function<int()>> waiting;
};

Fake& fake();

inline int injected(const char* function) {
  Fake& f = fake();
  if (f.failing == 0 || (!f.failing_function.empty() && f.failing_function != function)) {
    return SUCCESS;
  }
  return --f.failing == 0 ? f.failure : SUCCESS;
}

// Records a call and its result; the effect happens unless the test wants the call to fail.
template <typename Effect, typename... Arguments>
int call(const char* function, Effect effect, Arguments... arguments) {
  Fake& f = fake();
  std::lock_guard<std::recursive_mutex> guard(f.lock);
  int result = injected(function);
  // Effects complete the arguments with what they return.
  Call record{function, 0, {(Word)arguments...}};
  if (result == SUCCESS) {
    result = effect(record);
  }
  record.result = result;
  if (f.recording) {
    f.calls.push_back(record);
  }
  return result;
}

inline Word created(Kind kind, Word bytes = 0) {
  Fake& f = fake();
  Word handle = f.next_handle;
  f.next_handle += 0x10;
  f.live[handle] = {kind, bytes};
  return handle;
}

inline int released(Kind kind, Word handle) {
  Fake& f = fake();
  auto found = f.live.find(handle);
  if (found == f.live.end() || found->second.kind != kind) {
    return INVALID_HANDLE;
  }
  f.live.erase(found);
  return SUCCESS;
}

inline bool alive(Kind kind, Word handle) {
  auto found = fake().live.find(handle);
  return found != fake().live.end() && found->second.kind == kind;
}

// The memory that holds an address; end() if none does.
inline std::map<Word, Object>::iterator memory_of(Word address) {
  Fake& f = fake();
  auto after = f.live.upper_bound(address);
  while (after != f.live.begin()) {
    --after;
    if (after->second.bytes > 0) {
      return address < after->first + after->second.bytes ? after : f.live.end();
    }
  }
  return f.live.end();
}

inline bool inside_memory(Word address, Word bytes) {
  auto found = memory_of(address);
  return found != fake().live.end() && address + bytes <= found->first + found->second.bytes;
}
