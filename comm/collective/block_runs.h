#pragma once

#include <cstdint>
#include <vector>

namespace quire {

/// A run of bytes in a KV block; `at` counts from the block's beginning.
struct BlockRun {
  int64_t at = 0, bytes = 0;
  bool operator==(const BlockRun&) const = default;
};

/// The runs of bytes that one rank sends of every block to another rank, in sending order.
using BlockRuns = std::vector<BlockRun>;

inline int64_t BytesOf(const BlockRuns& runs) {
  int64_t bytes = 0;
  for (const BlockRun& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace quire
