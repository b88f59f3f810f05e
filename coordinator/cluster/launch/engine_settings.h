#pragma once

#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// Returns the engine's options for this topology and these pool sizes, without the prefix cache's hash key.
/// max_model_len: most tokens of a sequence. max_step_tokens: most tokens of a step.
EngineOptions EngineOptionsOf(const Topology& topology, const ModelSpec& spec, const PoolSizes& pools,
                              int max_model_len, int max_step_tokens);

/// Returns the options that may change while requests run.
LiveOptions LiveOptionsOf(const Topology& topology);

/// Returns the wanted time between two tokens of a stream, in milliseconds; 0 when none is wanted.
int TargetMillis(const Topology::Scheduler& scheduler);

}  // namespace quire
