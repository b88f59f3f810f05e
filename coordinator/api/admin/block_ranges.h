#pragma once

#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"

namespace quire {

/// Returns block ids, in their order, as runs [first, count] of ascending neighbours. A run of null blocks, which have
/// left the attention window, is [0, count].
Json BlockRangesJson(const std::vector<BlockId>& blocks);

}  // namespace quire
