#pragma once

#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"

namespace quire {

/// Block ids in their order as runs of ascending neighbours: [first, count] each. Null entries, which have left the
/// attention window, are [0, count].
Json BlockRangesJson(const std::vector<BlockId>& blocks);

}  // namespace quire
