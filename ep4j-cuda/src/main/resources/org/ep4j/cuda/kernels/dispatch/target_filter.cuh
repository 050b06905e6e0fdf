// Target filters: the ranks to which rows are pushed. select(route) is the route if its rank is one
// of them, else NO_ROUTE.
#pragma once
#include "dispatch/dispatch_parameters.cuh"

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
