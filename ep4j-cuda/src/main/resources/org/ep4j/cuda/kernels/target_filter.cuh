// To which ranks rows are pushed: select(way) is the way if it leads to one of them, else NOWHERE.
#pragma once
#include "dispatch_parameters.cuh"

struct AllRanks {
  __device__ __forceinline__ u64 select(u64 route) const { return route; }
};

struct RanksOfNode {
  u32 first;
  u32 end;

  __device__ __forceinline__ u64 select(u64 route) const {
    u32 rank = route_rank(route);
    return rank >= first && rank < end ? route : NO_ROUTE;
  }
};
