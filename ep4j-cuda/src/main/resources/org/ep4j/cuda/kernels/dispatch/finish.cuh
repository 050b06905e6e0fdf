// Start of a cached dispatch (`ready`), and end of every dispatch (`done`).
#pragma once
#include "dispatch/dispatch_parameters.cuh"

__device__ __forceinline__ void publish_ready(const DispatchParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; blockIdx.x == 0 && r < p.ranks; r += blockDim.x) {
    if (is_live(p, r)) {
      store_release_system((u64*)(p.peers[r] + p.ready_offset) + p.rank, w.epoch);
    }
  }
}

__device__ __forceinline__ void await_ready(const DispatchParameters& p, const WaitContext& w) {
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (is_live(p, r)) {
      wait_epoch(w, (u64*)(p.peers[p.rank] + p.ready_offset) + r, PHASE_ENTER, r, blockIdx.x == 0);
    }
  }
  __syncthreads();
}

// One warp.
__device__ __forceinline__ void count_traffic(const DispatchParameters& p, Control* control) {
  u32 sent = 0;
  u32 received = 0;
  for (u32 r = lane_id(); r < p.ranks; r += 32) {
    sent += p.matrix[p.rank * p.ranks + r];
    received += p.matrix[r * p.ranks + p.rank];
  }
  sent = __reduce_add_sync(0xffffffff, sent);
  received = __reduce_add_sync(0xffffffff, received);
  if (is_first_lane()) {
    control->rows_sent += sent;
    control->rows_received += received;
    control->payload_bytes += sent * (p.row_bytes + p.scale_bytes);
  }
}

__device__ __forceinline__ void publish_done(const DispatchParameters& p, const WaitContext& w, u32 rank) {
  char* region = p.peers[rank];
  if (region != nullptr && !aborted(w)) {
    store_release_system((u64*)(region + p.done_offset) + p.rank, w.epoch);
  }
}

// Writes ROW_RETURNS of the matrix. Warps `first` to the last of a block.
__device__ __forceinline__ void sum_returns(const DispatchParameters& p, u32 first) {
  u32 me = (u32)p.rank;
  u32 warps = blockDim.x >> 5;
  for (u32 r = warp_id() - first; warp_id() >= first && r < p.ranks; r += warps - first) {
    u32 sum = 0;
    for (u32 h = lane_id(); h < me; h += 32) {
      sum += h == r ? 0 : p.matrix[r * p.ranks + h];
    }
    sum = __reduce_add_sync(0xffffffff, sum);
    if (is_first_lane()) {
      matrix_row(p, ROW_RETURNS)[r] = sum;
    }
  }
}

struct NoWork {
  __device__ __forceinline__ void operator()() const {}
};

// All threads of all blocks, once the rows of this rank have been sent. `done_published`: some
// threads have already published `done`. All threads of the last block call `extra_work`.
template <class EntrySource, class ExtraWork>
__device__ __forceinline__ void finish(const DispatchParameters& p, const WaitContext& w, bool done_published,
                                       EntrySource entries, ExtraWork extra_work) {
  fence_proxy();
  if (!last_block(w.control)) {
    return;
  }
  if (warp_id() == (blockDim.x >> 5) - 1 && !__any_sync(0xffffffff, aborted(w))) {
    count_traffic(p, w.control);
  }
  extra_work();
  // All ranks are notified before any is awaited: with more ranks than threads, two ranks that waited
  // first could wait for each other.
  for (u32 r = threadIdx.x; !done_published && r < p.ranks; r += blockDim.x) {
    publish_done(p, w, r);
  }
  // Here, where other ranks are awaited, by warps that await none of them.
  if (!p.cached) {
    sum_returns(p, min((u32)(p.ranks + 31) / 32, (blockDim.x >> 5) - 1));
  }
  for (u32 r = threadIdx.x; r < p.ranks; r += blockDim.x) {
    if (is_live(p, r) && !aborted(w)) {
      wait_epoch(w, (u64*)(p.peers[p.rank] + p.done_offset) + r, PHASE_ROWS, r, true);
    }
  }
  fence_proxy();
  __syncthreads();
  if (threadIdx.x < 32) {
    end_epoch(w, p.receipt, entries);
  }
}

__device__ __forceinline__ void finish(const DispatchParameters& p, const WaitContext& w, bool done_published) {
  finish(p, w, done_published, IntranodeEntrySignals{p}, NoWork{});
}
