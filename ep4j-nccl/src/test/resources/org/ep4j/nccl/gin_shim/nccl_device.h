// What the shim needs of NCCL's device headers, for the host: each call prints its communicator and
// context. A context counts 1, 10 or 100 of each signal, by its communicator.
#pragma once
#include <stdio.h>

#define __device__
#define __global__
#define __noinline__
#define __forceinline__ inline

#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))

typedef void* ncclWindow_t;

struct ncclDevComm {
  int number;
  int ginContextCount;
};

struct ncclDevCommRequirements {
  bool ginForceEnable;
  int ginContextCount;
  int ginSignalCount;
};

struct ncclTeam {};
struct ncclGin_None {};
struct ncclCoopWarp {};

struct ncclGin_SignalAdd {
  unsigned signal;
  unsigned long long value;
};

inline ncclTeam ncclTeamWorld(const ncclDevComm&) { return {}; }

struct ncclGin {
  const ncclDevComm& comm;
  int context;

  ncclGin(const ncclDevComm& comm, int context) : comm(comm), context(context) {}

  void say(const char* what) const { printf("%s communicator %d context %d", what, comm.number, context); }

  void put(ncclTeam, int peer, ncclWindow_t window, unsigned long long, ncclWindow_t, unsigned long long,
           unsigned long long, ncclGin_None, ncclGin_None, ncclCoopWarp) const {
    say("put");
    printf(" window %llu to %d\n", (unsigned long long)window, peer);
  }

  void signal(ncclTeam, int peer, ncclGin_SignalAdd, ncclCoopWarp) const {
    say("signal");
    printf(" to %d\n", peer);
  }

  void flush(ncclCoopWarp) const {
    say("flush");
    printf("\n");
  }

  unsigned long long readSignal(unsigned) const {
    unsigned long long counts[] = {1, 10, 100};
    return context < comm.ginContextCount ? counts[comm.number] : 0;
  }

  void resetSignal(unsigned) const {}
};
