#include "comm/collective/block_link.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

void CheckRuns(const BlockRuns& runs, const BlockMemory& blocks) {
  for (const std::span<std::byte> block : blocks) {
    const auto size = static_cast<int64_t>(block.size());
    for (const BlockRun& run : runs) {
      QUIRE_CHECK(run.at >= 0 && run.bytes > 0 && run.at <= size && run.bytes <= size - run.at,
                  "{} bytes at {} of a block of {}", run.bytes, run.at, size);
    }
  }
}

std::vector<std::span<std::byte>> PartsOf(const BlockRuns& runs, std::span<std::byte> block, int64_t offset,
                                          int64_t bytes) {
  std::vector<std::span<std::byte>> parts;
  for (const BlockRun& run : runs) {
    if (bytes == 0) break;
    const int64_t part = std::min(bytes, run.bytes - std::min(offset, run.bytes));
    if (part > 0) parts.push_back(block.subspan(static_cast<size_t>(run.at + offset), static_cast<size_t>(part)));
    bytes -= part;
    offset -= std::min(offset, run.bytes);
  }
  return parts;
}

}  // namespace quire
