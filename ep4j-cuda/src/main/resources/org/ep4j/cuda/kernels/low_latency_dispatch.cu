// Low-latency dispatch in one kernel; see low_latency.cuh for the words.
//
// Half of the warps of each block send: in block 0 they tell the peers the routing; in the others they
// take pieces of tokens, encode them and write them once to every rank that owns one of the token's
// experts. The other half learn the routing of the peers; then they, and those that have sent, take
// pieces of arriving rows and put each where the rows of its local experts are wanted. With a hook
// the two halves are two launches, and all warps do either. Between nodes one of the warps that send
// may tell instead; see low_latency_far.cuh.
#include "low_latency_end.cuh"
#include "low_latency_receive.cuh"
#include "low_latency_send.cuh"

// Warps of a team that sends which tell instead.
constexpr u32 TELLERS = MAPPED ? 1 : 0;

template <class Format>
__device__ __forceinline__ void dispatch(const LowLatencyParameters& p) {
  extern __shared__ __align__(16) char shared[];
  await_kernel_before();
  Operation op = operation_of(p);
  Sources sources(shared, p);
  Turn turn(sources, p);
  Outgoing parcel;
  Team all{0, WARPS, BARRIER_RECEIVING};
  bool both = p.phases == (SENDING | RECEIVING);
  bool tells = blockIdx.x == 0;
  Team sending{0, both ? WARPS / 2 : WARPS, BARRIER_SENDING};
  Team receiving = both ? Team{WARPS / 2, WARPS / 2, BARRIER_RECEIVING} : all;
  u32 senders = gridDim.x == 1 ? 1 : gridDim.x - 1;
  bool sends = (!tells || gridDim.x == 1) && sending.has_this_warp();
  bool tells_rows = MAPPED && warp_id() + 1 == sending.warps;
  sources.take_none();
  if (p.phases & SENDING) {
    // What is needed first is on its way while this rank looks at the others.
    sources.load_owners(p);
    if (tells) {
      turn.read(p, all);
    }
    if (sends && !tells_rows) {
      u32 first = warp_id() * senders + blockIdx.x - !tells;
      parcel.load(p, PUTS ? first * pieces_of(p) : first);
    }
  }
  if (!begin(op, sources.areas, sources.parts)) {
    return;
  }
  if ((p.phases & SENDING) && sending.has_this_warp()) {
    if (tells) {
      tell_routing(op, sources, turn, sending);
    }
    if (sends && !tells_rows) {
      send_rows<Format>(op, sources, parcel, senders * (sending.warps - TELLERS), sending.warps);
    }
#if EP4J_FAR == EP4J_FAR_MAPPED
    if (sends && tells_rows) {
      tell_groups(op, sources.areas, (u32)p.tokens, sending.warps, blockIdx.x - !tells, senders);
    }
#endif
  }
  if (!(p.phases & RECEIVING)) {
    finish(op, sources.parts);
    return;
  }
  if (!receiving.has_this_warp()) {
    barrier_meet(BARRIER_FIRST_ROWS, blockDim.x);
  } else {
    learn_routing(op, sources, receiving);
    if (!p.masking && blockIdx.x == 0) {
      tell_caller(op, sources, receiving);
    }
    if (both) {
      barrier_arrive(BARRIER_FIRST_ROWS, blockDim.x);
    }
  }
#if EP4J_FAR
  if (blockIdx.x == 0 && warp_id() == receiving.first) {
    relay<true>(op, sources.areas, [&](u32 s) { return sources.tokens[s]; });
  }
#endif
  receive_rows<Format>(op, sources, blockIdx.x, gridDim.x);
  if (!p.masking) {
    finish(op, sources.parts);
    return;
  }
  if (!is_last_block(op)) {
    return;
  }
  while (receive_again(op)) {
    sources.take_none();
    look_again(op, sources.areas, sources.parts);
    learn_routing(op, sources, all);
    receive_rows<Format>(op, sources, 0, 1);
    __syncthreads();
  }
  tell_caller(op, sources, all);
  __syncthreads();
  if (warp_id() == 0) {
    end_operation(op, sources.parts, p.control->ticket);
  }
}

#define EP4J_LOW_LATENCY_DISPATCH(name, Format)              \
  extern "C" __global__ void __launch_bounds__(512, 1)       \
      name(const __grid_constant__ LowLatencyParameters p) { \
    dispatch<Format>(p);                                     \
  }

EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_bf16, Bf16Rows)
EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_fp8, Fp8Rows)
EP4J_LOW_LATENCY_DISPATCH(ep4j_low_latency_dispatch_nvfp4, Nvfp4Rows)
