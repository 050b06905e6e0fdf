// Granularity of notifications for rows of other nodes; see low_latency_internode.cuh. The same
// values as in org.ep4j.cuda.engine.lowlatency.LowLatencyLayout, which reserves the words.
#pragma once
#include "common/ptx.cuh"

constexpr u32 GROUPS = 4;  // of tokens
constexpr u32 UNITS = 32;  // of publishing blocks, one lane each; see low_latency_groups.cuh
