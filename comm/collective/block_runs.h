#pragma once

#include <cstdint>
#include <vector>

namespace quire {

/// Bytes of a KV block, from its beginning.
struct BlockRun {
  int64_t at = 0, bytes = 0;
  bool operator==(const BlockRun&) const = default;
};

/// What goes of every block from one rank to another, in the order in which it goes.
using BlockRuns = std::vector<BlockRun>;

inline int64_t BytesOf(const BlockRuns& runs) {
  int64_t bytes = 0;
  for (const BlockRun& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace quire
