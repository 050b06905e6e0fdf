// How a low-latency operation begins: which ranks count, and where there is space for what is sent.
#pragma once
#include "low_latency_waits.cuh"
#if EP4J_INTERNODE
#include "low_latency_internode.cuh"
#endif

// Waits until `peer` has received the operation before last, so that there is an area for this one.
__device__ __forceinline__ bool await_space(const Operation& op, u32 peer, Grant& grant) {
  u64 expected = op.number - 2;
  const u64* at = op.received(op.written_by(peer, op.p.own, op.p.internode_part), peer);
  if (op.is_internode(peer)) {
    // The relay of the operation before has brought none that is new enough.
    bool granted = await<WORD_INTERNODE_GRANT>(op, at, PHASE_ENTER, peer, expected, grant.word);
    __threadfence_system();
    return granted;
  }
  return await<WORD_GRANT>(op, at, PHASE_ENTER, peer, expected, grant.word);
}

// The area of a rank if it counts and, should the kernel send, has space; else null. Its part likewise,
// space or not. All loads are on their way before one is looked at.
__device__ __forceinline__ char* peer_area(const Operation& op, u32 r, u64 failed, char*& part) {
  const LowLatencyParameters& p = op.p;
  part = p.peers[r];
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
  if (op.is_internode(r)) {
    bool space = part != nullptr && failed == 0 && (!(p.phases & SENDING) || await_grant(op, r));
    return space ? staging_area(op, r) : nullptr;
  }
#endif
  u64 masked = load_relaxed_system(&p.masks[r]);
  Grant grant{load_acquire_system(op.received(p.own, r))};
  part = masked != 0 ? nullptr : part;
  if (part == nullptr || failed != 0) {
    return nullptr;
  }
  bool space = !(p.phases & SENDING) || grant.number() + 2 >= op.number;
  return space || await_space(op, r, grant) ? part + grant.area(op.number) * p.area_bytes : nullptr;
}

// Looks at all ranks: areas of those that count and parts of all, in shared memory; to be followed by a
// barrier. All threads.
__device__ __forceinline__ void resolve_peers(const Operation& op, u64 failed, char** areas, char** parts) {
  for (u32 r = threadIdx.x; r < op.p.ranks; r += blockDim.x) {
    char* part;
    areas[r] = peer_area(op, r, failed, part);
    parts[r] = part;
  }
}

// The same once more, because a rank has been masked. All threads.
__device__ __forceinline__ void resolve_peers_again(const Operation& op, char** areas, char** parts) {
  __syncthreads();
  resolve_peers(op, 0, areas, parts);
  __syncthreads();
}

// The operation that this kernel sends or receives. Kernels of a buffer run one after the other, so
// nothing that is read here changes meanwhile, but for what peers have received.
__device__ __forceinline__ Operation operation_of(const LowLatencyParameters& p) {
  const LowLatencyState* state = (const LowLatencyState*)p.own;
  u64 number = load_relaxed_system(p.phases & SENDING ? &state->sent : &state->received) + 1;
  Grant last_grant{load_relaxed_system((u64*)(p.own + p.received_offset) + p.rank)};
  WaitContext wait{p.control, p.record, p.host_abort, LOW_LATENCY | number, nanoseconds() + p.timeout};
  return Operation{p, wait, number, last_grant, p.own + last_grant.area(number) * p.area_bytes};
}
