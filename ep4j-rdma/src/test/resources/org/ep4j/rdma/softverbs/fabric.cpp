#include "fabric.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <stdexcept>

namespace soft {

constexpr int MAX_WAIT = 10000;  // ms

static int futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* limit) {
  return static_cast<int>(
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, limit, nullptr, 0));
}

static struct flock range(short type, off_t from, off_t count) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = from;
  lock.l_len = count;
  return lock;
}

bool Fabric::lock(uint32_t at) {
  struct flock mine = range(F_WRLCK, at, 1);
  return fcntl(file, F_OFD_SETLK, &mine) == 0;
}

void Fabric::unlock(uint32_t at) {
  struct flock mine = range(F_UNLCK, at, 1);
  fcntl(file, F_OFD_SETLK, &mine);
}

// While this process joins, no other does.
void Fabric::lockForJoining() {
  constexpr timespec PAUSE = {0, 1000000};
  for (int waited = 0; !lock(MAX_PROCESSES); waited++) {
    if (waited == MAX_WAIT) {
      throw std::runtime_error("another process does not stop joining the fabric");
    }
    nanosleep(&PAUSE, nullptr);
  }
}

bool Fabric::others() {
  struct flock any = range(F_WRLCK, 0, MAX_PROCESSES);
  return fcntl(file, F_OFD_GETLK, &any) == 0 && any.l_type != F_UNLCK;
}

bool Fabric::alive(uint32_t process) {
  if (process == place) {
    return true;
  }
  struct flock one = range(F_WRLCK, process, 1);
  return fcntl(file, F_OFD_GETLK, &one) == 0 && one.l_type != F_UNLCK;
}

Fabric::Fabric(const std::string& directory)
    : bytes(((sizeof(SharedFabric) + 4095) & ~4095ull) + MAX_PAIRS * PAIR_BYTES),
      ringsAt((sizeof(SharedFabric) + 4095) & ~4095ull) {
  file = open((directory + "/fabric").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    throw std::runtime_error("cannot open the fabric");
  }
  try {
    lockForJoining();
    map();
    join();
    unlock(MAX_PROCESSES);
  } catch (...) {
    leave();
    throw;
  }
}

Fabric::~Fabric() { leave(); }

// The first process finds the file as a new one.
void Fabric::map() {
  if (!others() && ftruncate(file, 0) != 0) {
    throw std::runtime_error("cannot clear the fabric");
  }
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    throw std::runtime_error("cannot size the fabric");
  }
  void* mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) {
    throw std::runtime_error("cannot map the fabric");
  }
  memory = static_cast<SharedFabric*>(mapped);
}

// Takes a place, and frees the queue pairs of a process that had it and died.
void Fabric::join() {
  for (uint32_t i = 0; i < MAX_PROCESSES && place == MAX_PROCESSES; i++) {
    if (lock(i)) {
      place = i;
    }
  }
  if (place == MAX_PROCESSES) {
    throw std::runtime_error("the fabric has too many processes");
  }
  for (uint32_t i = 0; i < MAX_PAIRS; i++) {
    if (memory->pairs[i].number.load() != 0 && memory->pairs[i].process.load() == place) {
      freePair(memory->pairs[i].number.load());
    }
  }
}

// Closing the file releases all locks.
void Fabric::leave() {
  if (memory != nullptr) {
    munmap(memory, bytes);
  }
  close(file);
}

uint8_t* Fabric::ring(uint32_t number) {
  return reinterpret_cast<uint8_t*>(memory) + ringsAt + (number % MAX_PAIRS) * PAIR_BYTES;
}

uint8_t* Fabric::answer(uint32_t number, uint64_t packet) {
  return ring(number) + RING_BYTES + packet % MAX_ANSWERS * MTU;
}

uint32_t Fabric::takePair(uint32_t port) {
  for (uint32_t tries = 0; tries < MAX_PAIRS; tries++) {
    // 24 bits; the upper ones differ each time a place is taken.
    uint32_t number = (MAX_PAIRS + memory->nextPair.fetch_add(1)) & 0xffffff;
    SharedPair& end = pair(number);
    uint32_t none = 0;
    if (number < MAX_PAIRS || !end.number.compare_exchange_strong(none, UINT32_MAX)) {
      continue;
    }
    end.process = place;
    end.port = port;
    end.peer = 0;
    end.expected = 0;
    end.refusal = 0;
    end.head = 0;
    end.tail = 0;
    end.number = number;
    return number;
  }
  return 0;
}

void Fabric::freePair(uint32_t number) {
  pair(number).number = 0;
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(ringsAt + (number % MAX_PAIRS) * PAIR_BYTES), PAIR_BYTES);
}

void Fabric::wake(uint32_t process) {
  SharedProcess& other = memory->processes[process % MAX_PROCESSES];
  other.doorbell.fetch_add(1);
  if (other.sleeping.load() != 0) {
    futex(other.doorbell, FUTEX_WAKE, 1, nullptr);
  }
}

void Fabric::sleep(uint32_t seen, int64_t nanoseconds) {
  SharedProcess& mine = memory->processes[place];
  timespec limit = {static_cast<time_t>(nanoseconds / 1000000000), nanoseconds % 1000000000};
  mine.sleeping = 1;
  futex(mine.doorbell, FUTEX_WAIT, seen, &limit);
  mine.sleeping = 0;
}

}  // namespace soft
