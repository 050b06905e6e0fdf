// Calls the functions of the shim on each lane. Arguments: number of lanes, words of a GinTable with
// numbers in the place of addresses of communicators.
#include "device_put.cu"

#include <stdlib.h>

#include <vector>

int main(int count, char** arguments) {
  std::vector<u64> words;
  for (int i = 2; i < count; i++) {
    words.push_back(strtoull(arguments[i], nullptr, 10));
  }
  const GinTable& table = table_of((u64)words.data());
  std::vector<ncclDevComm> comms(table.communicators);
  for (u32 i = 0; i < table.communicators; i++) {
    GinEntry& entry = const_cast<GinEntry&>(entry_at(table, i));
    comms[i] = {(int)entry.comm, (int)table.contexts};
    entry.comm = (u64)&comms[i];
  }
  u64 library = (u64)words.data();
  for (u32 lane = 0; lane < (u32)atoi(arguments[1]); lane++) {
    ep4j_library_put(library, 0, lane, 5, 0, 0, 16);
    ep4j_library_signal(library, 0, 0, lane, 5, 1, 1);
    ep4j_library_flush(library, lane);
  }
  printf("signals %llu\n", ep4j_library_signals(library, 1));
  return 0;
}
