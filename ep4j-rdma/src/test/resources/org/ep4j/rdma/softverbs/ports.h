// Devices and ports of the fabric: directories as below /sys/class/infiniband. Tests pull a cable by
// writing into the file of the state, and change it by writing into the file `cable`. The file `refuse`
// names a state that no queue pair of the port enters; `connections` has a line for each connection.
// The file `broken` grows by a line for each queue pair that a test breaks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace soft {

struct Port {
  std::string device;
  int number;
  std::string directory;
  std::vector<std::vector<uint8_t>> gids;
  bool up = false;
  double loss = 0;             // share of packets, 0 to 1
  int64_t delay = 0;           // ns
  int64_t bytesPerSecond = 0;  // 0: unlimited
  int stateFile = -1, cableFile = -1, brokenFile = -1;
  int64_t brokenSeen = 0;  // bytes of that file
  int64_t readAt = INT64_MIN;

  // Reads both files again if they were read a while ago.
  void refresh(int64_t now);
  int state() const;
  // The state of a queue pair that this port refuses to enter; 0 for none.
  uint32_t refused() const;
  // Adds a line that describes a connection of this port.
  void record(uint32_t pair, int serviceLevel, int trafficClass) const;
  void count(const char* counter, uint64_t value) const;
};

class Ports {
 public:
  explicit Ports(const std::string& directory);
  ~Ports();
  Ports(const Ports&) = delete;

  std::vector<Port> all;

  int find(const std::string& device, int number) const;
  // The port with this address in the network of another port; -1 if none. IPv4 networks have 24
  // bits, as rails: a port does not reach those of other rails.
  int reach(const Port& from, int gidIndex, const uint8_t* gid) const;
  // Numbers of the queue pairs that were broken since the last call; looks once in a while.
  std::vector<uint32_t> broken(int64_t now);
  // Forgets what was read: what comes next must see the cables as they are.
  void stale();

 private:
  int64_t lookedAt = INT64_MIN;
};

std::vector<std::string> namesIn(const std::string& directory);

}  // namespace soft
