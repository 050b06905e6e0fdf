// Quiesces the internode traffic of a library and restarts its counters, for a buffer that starts
// anew while no other kernel of any rank uses the library.
//
// Roles, ep4j_library_quiesce: one block; each warp signals on some lanes, then each thread waits
// for some ranks. ep4j_library_clear: one block, one thread a counter. Budget: no shared
// memory.
//
// Invariant: each rank sends a final signal on each lane to all ranks of other nodes. The signal
// takes effect after all earlier traffic of its lane, so a rank that has the final signals of all
// others has no traffic in flight towards it. The final signals use the counters from `first_word`
// on, one a rank. These are never cleared: a final signal adds what this rank lags behind.
#include "internode/internode_transport.cuh"
#include "structs/quiesce_parameters.cuh"

// One block of whole warps, at most as many as lanes.
extern "C" __global__ void ep4j_library_quiesce(const __grid_constant__ InternodeTransport transport,
                                              const __grid_constant__ QuiesceParameters run) {
  for (u32 lane = threadIdx.x / 32; lane < transport.rings.rings; lane += blockDim.x / 32) {
    for (u32 r = 0; r < run.ranks; r++) {
      if (r < run.node_first || r >= run.node_end) {
        ep4j_library_signal(transport.library, transport.window, transport.words, lane, r,
                            (u32)(run.first_word + run.rank), run.increment);
      }
    }
  }
  u64 deadline = nanoseconds() + run.timeout;
  for (u32 r = threadIdx.x; r < run.ranks; r += blockDim.x) {
    bool waits = r < run.node_first || r >= run.node_end;
    while (waits && count_acquire(transport, transport.counters + run.first_word + r) < run.wanted) {
      if (nanoseconds() > deadline) {
        atomicExch(run.missing, 1ull + r);
        waits = false;
      }
    }
  }
}

// One block: resets the first counters to 0 relative to the library's own counts.
extern "C" __global__ void ep4j_library_clear(const __grid_constant__ InternodeTransport transport, u64 counters) {
  for (u32 i = threadIdx.x; i < counters; i += blockDim.x) {
    ((u64*)transport.counters)[i] = 0 - ep4j_library_signals(transport.library, i);
  }
}
