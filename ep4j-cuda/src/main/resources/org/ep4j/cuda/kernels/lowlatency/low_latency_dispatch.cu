// Low-latency dispatch in one kernel; see low_latency.cuh for the words.
//
// Roles of the 16 warps of a block:
//   warps 0 to 7   sending team. Block 0 publishes the routing to the peers; the other blocks take pieces of
//                  tokens, encode them and write them once to every rank that owns one of the token's
//                  experts. A single block does both. MAPPED: the last warp of the team publishes groups.
//   warps 8 to 15  receiving team: read the routing of the peers (block 0 also writes the caller's results);
//                  then these warps, and the sending warps that have finished, take pieces of arriving rows
//                  and copy each to the rows of its local experts. Internode: the first of
//                  them in block 0 relays.
//   last block     acknowledges the operation to the peers and ends it; with masks it may repeat the receipt
// With a hook the two halves are two launches, and all warps of a launch have the same role.
// Budget: 512 threads, one block an SM, so at most 128 registers a thread. Shared memory: Sources
// (tables by rank, expert and source) and, in block 0, a RoutingTile of tile_tokens tokens.
//
// Invariant: all words carry the operation's number, and a rank writes into an area only after the
// owner has granted it for this number, so stale and new words cannot be confused. Until they
// have sent, sending warps never wait for receiving warps.
#include "lowlatency/low_latency_end.cuh"
#include "lowlatency/low_latency_receive.cuh"
#include "lowlatency/low_latency_send.cuh"

// Warps of a sending team that publish groups instead of sending.
constexpr u32 PUBLISHERS = MAPPED ? 1 : 0;

template <class Format>
__device__ __forceinline__ void dispatch(const LowLatencyParameters& p) {
  extern __shared__ __align__(16) char shared[];
  await_previous_kernel();
  Operation op = operation_of(p);
  Sources sources(shared, p);
  RoutingTile tile(sources, p);
  SendItem item;
  Team all{0, WARPS, BARRIER_RECEIVING};
  bool both = p.phases == (SENDING | RECEIVING);
  bool publishes = blockIdx.x == 0;
  Team sending{0, both ? WARPS / 2 : WARPS, BARRIER_SENDING};
  Team receiving = both ? Team{WARPS / 2, WARPS / 2, BARRIER_RECEIVING} : all;
  u32 senders = gridDim.x == 1 ? 1 : gridDim.x - 1;
  bool sends = (!publishes || gridDim.x == 1) && sending.has_this_warp();
  bool publishes_rows = MAPPED && warp_id() + 1 == sending.warps;
  sources.reset_taken();
  if (p.phases & SENDING) {
    // Prefetches the first loads while this rank reads the state of its peers.
    sources.load_owners(p);
    if (publishes) {
      tile.read(p, all);
    }
    if (sends && !publishes_rows) {
      u32 first = warp_id() * senders + blockIdx.x - !publishes;
      item.load(p, PUTS ? first * pieces_of(p) : first);
    }
  }
  if (!begin(op, sources.areas, sources.parts)) {
    return;
  }
  if ((p.phases & SENDING) && sending.has_this_warp()) {
    if (publishes) {
      publish_routing(op, sources, tile, sending);
    }
    if (sends && !publishes_rows) {
      send_rows<Format>(op, sources, item, senders * (sending.warps - PUBLISHERS), sending.warps);
    }
    if constexpr (MAPPED) {
      if (sends && publishes_rows) {
        publish_groups(op, sources.areas, (u32)p.tokens, sending.warps, blockIdx.x - !publishes, senders);
      }
    }
  }
  if (!(p.phases & RECEIVING)) {
    finish(op, sources.parts);
    return;
  }
  if (!receiving.has_this_warp()) {
    barrier_sync(BARRIER_FIRST_ROWS, blockDim.x);
  } else {
    read_routing(op, sources, receiving);
    if (!p.masking && blockIdx.x == 0) {
      write_caller_results(op, sources, receiving);
    }
    if (both) {
      barrier_arrive(BARRIER_FIRST_ROWS, blockDim.x);
    }
  }
  if constexpr (INTERNODE) {
    if (blockIdx.x == 0 && warp_id() == receiving.first) {
      relay_rows(op, sources.areas, [&](u32 s) { return sources.tokens[s]; });
    }
  }
  receive_rows<Format>(op, sources, blockIdx.x, gridDim.x);
  if (!p.masking) {
    finish(op, sources.parts);
    return;
  }
  if (!is_last_block(op)) {
    return;
  }
  while (receive_again(op)) {
    sources.reset_taken();
    resolve_peers_again(op, sources.areas, sources.parts);
    read_routing(op, sources, all);
    receive_rows<Format>(op, sources, 0, 1);
    __syncthreads();
  }
  write_caller_results(op, sources, all);
  __syncthreads();
  if (warp_id() == 0) {
    end_operation(op, sources.parts, p.control->ticket, p.control->operations);
  }
}

namespace ep4j::low_latency {

#define EP4J_LOW_LATENCY_DISPATCH(name, Format)              \
  __global__ void __launch_bounds__(512, 1)                  \
      name(const __grid_constant__ LowLatencyParameters p) { \
    dispatch<Format>(p);                                     \
  }

EP4J_LOW_LATENCY_DISPATCH(dispatch_bf16, Bf16Rows)
EP4J_LOW_LATENCY_DISPATCH(dispatch_fp8, Fp8Rows)
EP4J_LOW_LATENCY_DISPATCH(dispatch_nvfp4, Nvfp4Rows)

}  // namespace ep4j::low_latency
