// The worlds of one node, which one_node.cpp and across_nodes.cpp run.
#pragma once
#include "combine_world.hpp"
#include "dispatch_world.hpp"
#include "main.hpp"
#include "many_ranks_world.hpp"
#include "observation_world.hpp"
#include "stale_rank_fence_world.hpp"
#include "timeout_attribution_world.hpp"

// Entries of the list of worlds.
#define ONE_NODE_WORLDS                             \
  {"dispatch_world", dispatch_case},                \
  {"combine_world", combine_case},                  \
  {"many_ranks_world", many_ranks_case},            \
  {"observation_world", observation_case},          \
  {"stale_rank_fence_world", stale_rank_fence_case},\
  {"timeout_attribution_world", timeout_attribution_case}
