#pragma once

#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Returns one line of JSON with everything except tokens that determines the bits of a stored block: the model with
/// its adapters, all types, the block size, the ranks' instruction sets, and this version of the program. Only servers
/// with the same text find each other's blocks.
std::string KvSpaceOf(const ModelFiles& model, const AssignMessage& assign, const std::vector<RankInfo>& ranks);

}  // namespace quire
