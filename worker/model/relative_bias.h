#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "worker/model/shard.h"

namespace quire {

/// Returns the numbers that are added to the scores of the rank's heads, for every distance of key and query from
/// -reach to reach: [heads, 2 * reach + 1]. Empty in models without RelativeBias.
std::vector<float> RelativeBiasOf(const ModelFiles& files, const RankShard& shard);

}  // namespace quire
