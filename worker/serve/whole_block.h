#pragma once

#include "comm/model/model_spec.h"
#include "comm/wire/messages.h"
#include "worker/engine/rank_engine.h"

namespace quire {

/// Writes into `hello` which part of a whole block, and of a whole state, the rank has (HelloMessage). Writes nothing
/// for a model with states whose pool lies on a device, because states are cut in host memory.
void AddWholeParts(const ModelSpec& spec, const GroupCut& cut, Rank rank, const RankEngine& engine,
                   HelloMessage& hello);

}  // namespace quire
