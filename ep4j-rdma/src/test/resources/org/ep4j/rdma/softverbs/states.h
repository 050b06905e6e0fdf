// Transitions of a queue pair by ibv_modify_qp.
#pragma once

#include "engine.h"

namespace soft {

// Returns 0 or an error number. Requires the lock of the engine.
int modify(Engine& engine, QueuePair& pair, const PairAttributes& attributes, int mask);

}  // namespace soft
