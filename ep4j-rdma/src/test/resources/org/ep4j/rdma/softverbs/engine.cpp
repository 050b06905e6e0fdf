#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>

namespace soft {

constexpr int MAX_BURST = 8;                // packets of a queue pair in a round
constexpr int64_t LOOK = 5000000;           // ns between looks whether a process lives
constexpr int64_t LONGEST_SLEEP = 50000000;  // ns
constexpr int64_t SHORTEST_SLEEP = 1000;

static std::mutex opening;
static int users = 0;
static Engine* current = nullptr;  // left alone at the end of a process that closes no device

int64_t monotonicNow() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static uint64_t seed(const std::string& directory) {
  uint64_t value = 1;
  std::ifstream(directory + "/seed") >> value;
  return value;
}

Engine::Engine(const char* directory)
    : fabric(directory), ports(directory), random(seed(directory)) {
  // The signals of the process are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Engine& Engine::open() {
  std::lock_guard<std::mutex> held(opening);
  if (current == nullptr) {
    const char* directory = getenv("SYSFS_PATH");
    if (directory == nullptr) {
      throw std::runtime_error("no fabric");
    }
    current = new Engine(directory);
  }
  users++;
  return *current;
}

Engine& Engine::get() { return *current; }

void Engine::close() {
  std::lock_guard<std::mutex> held(opening);
  if (--users == 0) {
    current->ending = true;
    current->wake();
    current->thread.join();
    delete current;
    current = nullptr;
  }
}

Engine::Hold::Hold() {
  Engine& engine = get();
  engine.waiting++;
  engine.mutex.lock();
  engine.waiting--;
}

Engine::Hold::~Hold() {
  get().mutex.unlock();
  get().wake();
}

bool Engine::alive(uint32_t process) {
  process %= MAX_PROCESSES;
  if (now - lookedAt[process] > LOOK) {
    lookedAt[process] = now;
    seenAlive[process] = fabric.alive(process);
  }
  return seenAlive[process];
}

// A queue pair that a test breaks enters the error state by itself: its own requests return flushed,
// and the requests of its peer exceed their retries.
bool Engine::breakPairs() {
  bool any = false;
  for (uint32_t number : ports.broken(now)) {
    for (QueuePair* pair : pairs) {
      if (pair->object.number == number) {
        pair->stop();
        any = true;
      }
    }
  }
  return any;
}

bool Engine::round() {
  now = monotonicNow();
  nextEvent = now + LONGEST_SLEEP;
  bool worked = breakPairs();
  order = pairs;
  std::shuffle(order.begin(), order.end(), random);
  for (QueuePair* pair : order) {
    int burst = 1 + static_cast<int>(random() % MAX_BURST);
    worked |= takeSome(*this, *pair, burst);
    worked |= sendSome(*this, *pair, burst);
  }
  for (uint32_t i = 0; i < MAX_PROCESSES; i++) {
    if (notified[i]) {
      notified[i] = false;
      if (i != fabric.process()) {
        fabric.wake(i);
      }
    }
  }
  return worked;
}

void Engine::run() {
  while (!ending) {
    uint32_t seen = fabric.doorbell();
    mutex.lock();
    bool worked = round();
    if (!worked) {
      ports.stale();
    }
    int64_t next = nextEvent;
    mutex.unlock();
    while (waiting > 0) {
      sched_yield();  // a mutex is not fair
    }
    if (!worked) {
      int64_t rest = next - monotonicNow();
      if (rest > SHORTEST_SLEEP) {
        fabric.sleep(seen, rest);
      }
    }
  }
}

}  // namespace soft
