// To which ranks rows are pushed: only(way) is the way if it leads to one of them, else NOWHERE.
#pragma once
#include "dispatch_parameters.cuh"

struct AllRanks {
  __device__ __forceinline__ u64 only(u64 way) const { return way; }
};

struct RanksOfNode {
  u32 first;
  u32 end;

  __device__ __forceinline__ u64 only(u64 way) const {
    u32 rank = way_rank(way);
    return rank >= first && rank < end ? way : NOWHERE;
  }
};
