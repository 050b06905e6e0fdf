// Start of a low-latency operation: the live ranks, and space for the rows sent.
#pragma once
#include "lowlatency/low_latency_internode.cuh"

// Waits until `peer` has received operation `number` - 2, so that this operation has an area.
__device__ __forceinline__ bool await_space(const Operation& op, u32 peer, Grant& grant) {
  u64 expected = op.number - 2;
  const u64* at = op.received(op.written_by(peer, op.p.own, op.p.internode_part), peer);
  if (op.is_internode(peer)) {
    // The relay of the previous operation has imported no grant that is new enough.
    bool granted = await<WORD_INTERNODE_GRANT>(op, at, PHASE_ENTER, peer, expected, grant.word, blockIdx.x == 0);
    __threadfence_system();
    return granted;
  }
  return await<WORD_GRANT>(op, at, PHASE_ENTER, peer, expected, grant.word, blockIdx.x == 0);
}

// The area of a rank if it is live and, in a kernel that sends, has space; else null. `part`: its
// part, independent of space. All loads are issued before the first is used.
__device__ __forceinline__ char* peer_area(const Operation& op, u32 r, u64 failed, char*& part) {
  const LowLatencyParameters& p = op.p;
  part = p.peers[r];
  if constexpr (PUTS) {
    if (op.is_internode(r)) {
      part = p.masking && load_relaxed_system(&p.masks[r]) != 0 ? nullptr : part;
      bool space = part != nullptr && failed == 0 && (!(p.phases & SENDING) || await_grant(op, r));
      return space ? staging_area(op, r) : nullptr;
    }
  }
  u64 masked = load_relaxed_system(&p.masks[r]);
  Grant grant{load_acquire_system(op.received(p.own, r))};
  part = masked != 0 ? nullptr : part;
  if (part == nullptr || failed != 0) {
    return nullptr;
  }
  bool space = !(p.phases & SENDING) || grant.number() + 2 >= op.number;
  if constexpr (INTERNODE) {
    if (op.is_internode(r)) {
      return space || await_space(op, r, grant) ? part + op.internode_area() : nullptr;
    }
  }
  return space || await_space(op, r, grant) ? part + grant.area(op.number) * p.area_bytes : nullptr;
}

// Reads the state of all ranks: areas of live ranks and parts of all, in shared memory; a barrier
// must follow. All threads.
__device__ __forceinline__ void resolve_peers(const Operation& op, u64 failed, char** areas, char** parts) {
  for (u32 r = threadIdx.x; r < op.p.ranks; r += blockDim.x) {
    char* part;
    areas[r] = peer_area(op, r, failed, part);
    parts[r] = part;
  }
}

// The same again after a rank has been masked. All threads.
__device__ __forceinline__ void resolve_peers_again(const Operation& op, char** areas, char** parts) {
  __syncthreads();
  resolve_peers(op, 0, areas, parts);
  __syncthreads();
}

// The operation that this kernel sends or receives. Kernels of a buffer run one after the other, so
// the values read here do not change meanwhile, except for the acknowledgements of peers.
__device__ __forceinline__ Operation operation_of(const LowLatencyParameters& p) {
  const LowLatencyState* state = (const LowLatencyState*)p.own;
  u64 number = load_relaxed_system(p.phases & SENDING ? &state->sent : &state->received) + 1;
  Grant last_grant{load_relaxed_system((u64*)(p.own + p.received_offset) + p.rank)};
  WaitContext wait{p.control, p.record, p.host_abort, LOW_LATENCY | number, nanoseconds() + p.timeout};
  return Operation{p, wait, number, last_grant, p.own + last_grant.area(number) * p.area_bytes};
}
