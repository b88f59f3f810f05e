#pragma once

#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/core/engine.h"

namespace quire {

/// The engine of a server with this topology, once its pools are sized; all but the key of its hashes.
EngineOptions EngineOptionsOf(const Topology& topology, const ModelSpec& spec, const PoolSizes& pools,
                              int max_model_len, int max_step_tokens);

/// What of it may change while requests run.
LiveOptions LiveOptionsOf(const Topology& topology);

/// Milliseconds between two tokens of a stream that steps are made for; 0: any.
int TargetMillis(const Topology::Scheduler& scheduler);

}  // namespace quire
