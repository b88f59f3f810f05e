#include "coordinator/api/admin/block_ranges.h"

#include "comm/base/json.h"

namespace quire {

Json BlockRangesJson(const std::vector<BlockId>& blocks) {
  Json ranges = Json::array();
  for (size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    const BlockId first = blocks[begin], step = first == kNullBlock ? 0 : 1;
    for (end = begin + 1; end < blocks.size() && blocks[end] == blocks[end - 1] + step;) ++end;
    ranges.push_back({first, end - begin});
  }
  return ranges;
}

}  // namespace quire
