#pragma once

#include "comm/model/model_spec.h"
#include "comm/wire/messages.h"
#include "worker/engine/rank_engine.h"

namespace quire {

/// Writes into `hello` which bytes this rank has of a whole group's KV block, and of a sequence's state. Writes nothing
/// for a model with states if the KV pool lies on a device: only states in host memory can be cut into parts.
void AddWholeParts(const ModelSpec& spec, const GroupCut& cut, Rank rank, const RankEngine& engine,
                   HelloMessage& hello);

}  // namespace quire
