// How much is told at once to whoever waits for rows of other nodes; see low_latency_internode.cuh. The same as in
// org.ep4j.cuda.engine.LowLatencyLayout, which makes room for the words.
#pragma once
#include "ptx.cuh"

constexpr u32 GROUPS = 4;  // of tokens
constexpr u32 UNITS = 32;  // of blocks that tell them, a lane each; see low_latency_groups.cuh
