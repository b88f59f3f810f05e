#pragma once

#include <cstdint>

namespace quire {

/// Totals of stored blocks since the start.
struct KvStoreCounts {
  int64_t stored = 0, found = 0, failed = 0;  // blocks written, blocks read, and failures of the disk or of a file
  int64_t stored_bytes = 0, found_bytes = 0;
  int64_t removed = 0;           // files removed because of their age or the size limit
  int64_t files = 0, bytes = 0;  // files now in the directory, and their bytes, as far as this process knows
  bool resting = false;          // true: the directory failed a moment ago and is not used for a while
};

}  // namespace quire
