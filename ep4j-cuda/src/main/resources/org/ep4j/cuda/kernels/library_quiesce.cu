// Whether what a library carries between nodes is all there, and counters from the beginning again: for a
// buffer that begins anew, while no other kernel of any rank uses the library.
//
// Counters from `first_word` on, one a rank: last words. Each rank sends all of other nodes one on each lane, which
// takes effect after all that the lane was given before; who has those of all others knows that nothing
// is under way to it any more. They are never cleared: a last word lets them grow by what this rank is behind.
#include "internode_transport.cuh"

// 8 bytes a field, in the order of org.ep4j.cuda.far.LibraryQuiesce.
struct QuiesceParameters {
  u64 rank;
  u64 ranks;
  u64 node_first;  // ranks of this node: from here
  u64 node_end;    // to here
  u64 first_word;  // number of the counter of rank 0
  u64 increment;      // of a last word
  u64 wanted;      // what each counter has to reach
  u64 timeout;     // ns
  u64* missing;    // 1 + a rank whose last words have not come in time; else as it was
};

// One block, a warp for each lane.
extern "C" __global__ void ep4j_library_quiesce(const __grid_constant__ InternodeTransport transport,
                                              const __grid_constant__ QuiesceParameters run) {
  u32 lane = threadIdx.x / 32;
  for (u32 r = 0; r < run.ranks; r++) {
    if (r < run.node_first || r >= run.node_end) {
      ep4j_library_signal(transport.library, transport.window, transport.words, lane, r,
                          (u32)(run.first_word + run.rank), run.increment);
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

// One block: the first counters are 0 from here on, whatever the library has counted apart.
extern "C" __global__ void ep4j_library_clear(const __grid_constant__ InternodeTransport transport, u64 counters) {
  for (u32 i = threadIdx.x; i < counters; i += blockDim.x) {
    ((u64*)transport.counters)[i] = 0 - ep4j_library_signals(transport.library, i);
  }
}
