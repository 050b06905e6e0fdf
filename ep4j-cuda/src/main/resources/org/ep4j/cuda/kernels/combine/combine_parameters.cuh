// Parameters of a combine (org.ep4j.cuda.struct.CombineParameters).
#pragma once
#include "common/kernel_lifecycle.cuh"
#include "structs/combine_parameters.cuh"

constexpr u64 NO_ROUTE = ~0ull;

// The words that show a combine which ranks of this node have entered.
struct CombineEntrySignals {
  const CombineParameters& p;

  __device__ __forceinline__ EntrySignals operator()() const {
    return EntrySignals{p.peers, p.rank, p.ranks, p.ready_offset, 0, 0, nullptr, 0, nullptr, nullptr};
  }
};
