#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "comm/wire/messages.h"
#include "worker/engine/rank_engine.h"

namespace quire {

/// Writes into `hello` which part of a whole block the rank has (HelloMessage). Writes nothing for models with states,
/// because their blocks are not cut.
void AddWholeBlockPart(const ModelSpec& spec, const GroupCut& cut, Rank rank, const RankEngine& engine,
                       HelloMessage& hello);

}  // namespace quire
