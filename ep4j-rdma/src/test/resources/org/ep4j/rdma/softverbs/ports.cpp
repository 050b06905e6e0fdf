#include "ports.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace soft {

constexpr int64_t REFRESH = 100000;  // ns
constexpr int NETWORK_BYTES = 15;
constexpr int BROKEN_LINE = 16;

std::vector<std::string> namesIn(const std::string& directory) {
  std::vector<std::string> names;
  if (DIR* open = opendir(directory.c_str())) {
    while (dirent* entry = readdir(open)) {
      if (entry->d_name[0] != '.') {
        names.push_back(entry->d_name);
      }
    }
    closedir(open);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Eight groups of four hexadecimal digits.
static std::vector<uint8_t> gid(const std::string& file) {
  std::vector<uint8_t> bytes;
  std::ifstream in(file);
  std::string group;
  while (std::getline(in, group, ':')) {
    unsigned long value = strtoul(group.c_str(), nullptr, 16);
    bytes.push_back(static_cast<uint8_t>(value >> 8));
    bytes.push_back(static_cast<uint8_t>(value));
  }
  bytes.resize(16);
  return bytes;
}

Ports::Ports(const std::string& directory) {
  std::string devices = directory + "/class/infiniband";
  for (const std::string& device : namesIn(devices)) {
    for (const std::string& number : namesIn(devices + "/" + device + "/ports")) {
      Port port;
      port.device = device;
      port.number = atoi(number.c_str());
      port.directory = devices + "/" + device + "/ports/" + number;
      for (const std::string& index : namesIn(port.directory + "/gids")) {
        port.gids.push_back(gid(port.directory + "/gids/" + index));
      }
      port.stateFile = open((port.directory + "/state").c_str(), O_RDONLY | O_CLOEXEC);
      port.cableFile = open((port.directory + "/cable").c_str(), O_RDONLY | O_CLOEXEC);
      port.brokenFile = open((port.directory + "/broken").c_str(), O_RDONLY | O_CLOEXEC);
      // Numbers are used again, so those of former fabrics mean nothing here.
      port.brokenSeen = std::max<int64_t>(0, lseek(port.brokenFile, 0, SEEK_END));
      all.push_back(port);
    }
  }
}

Ports::~Ports() {
  for (Port& port : all) {
    close(port.stateFile);
    close(port.cableFile);
    close(port.brokenFile);
  }
}

int Port::state() const {
  char text[16] = {};
  return pread(stateFile, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : 0;
}

void Port::refresh(int64_t now) {
  if (readAt != INT64_MIN && now - readAt < REFRESH) {
    return;
  }
  readAt = now;
  up = state() == 4;
  char text[128] = {};
  double percent = 0, microseconds = 0, megabytes = 0;
  if (pread(cableFile, text, sizeof(text) - 1, 0) > 0 &&
      sscanf(text, "loss %lf delay %lf rate %lf", &percent, &microseconds, &megabytes) == 3) {
    loss = percent / 100;
    delay = static_cast<int64_t>(microseconds * 1e3);
    bytesPerSecond = static_cast<int64_t>(megabytes * 1e6);
  }
}

uint32_t Port::refused() const {
  uint32_t state = 0;
  std::ifstream(directory + "/refuse") >> state;
  return state;
}

void Port::record(uint32_t pair, int serviceLevel, int trafficClass) const {
  // One write, so that lines of several processes do not mix.
  std::ofstream(directory + "/connections", std::ios::app)
      << "pair " + std::to_string(pair) + " service level " + std::to_string(serviceLevel) +
             " traffic class " + std::to_string(trafficClass) + "\n";
}

void Port::count(const char* counter, uint64_t value) const {
  std::ofstream(directory + "/hw_counters/" + counter) << value << "\n";
}

int Ports::find(const std::string& device, int number) const {
  for (size_t i = 0; i < all.size(); i++) {
    if (all[i].device == device && all[i].number == number) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int Ports::reach(const Port& from, int gidIndex, const uint8_t* gid) const {
  if (gidIndex >= static_cast<int>(from.gids.size()) ||
      memcmp(from.gids[gidIndex].data(), gid, NETWORK_BYTES) != 0) {
    return -1;
  }
  for (size_t i = 0; i < all.size(); i++) {
    for (const std::vector<uint8_t>& own : all[i].gids) {
      if (memcmp(own.data(), gid, own.size()) == 0) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

std::vector<uint32_t> Ports::broken(int64_t now) {
  std::vector<uint32_t> numbers;
  if (lookedAt != INT64_MIN && now - lookedAt < REFRESH) {
    return numbers;
  }
  lookedAt = now;
  for (Port& port : all) {
    char line[BROKEN_LINE + 1] = {};
    while (pread(port.brokenFile, line, BROKEN_LINE, port.brokenSeen) == BROKEN_LINE) {
      port.brokenSeen += BROKEN_LINE;
      numbers.push_back(static_cast<uint32_t>(atoi(line)));
    }
  }
  return numbers;
}

void Ports::stale() {
  lookedAt = INT64_MIN;
  for (Port& port : all) {
    port.readAt = INT64_MIN;
  }
}

}  // namespace soft
