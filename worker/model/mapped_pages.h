#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/model/model_files.h"

namespace quire {

/// Bounds the pages of a model's files that are mapped into this process. Reading a row maps pages around the row,
/// which stay mapped and count as memory of the process. This class releases all pages before more than kMostBytes may
/// be mapped. The page cache keeps them, so a later read maps them again in a microsecond.
class MappedPages {
 public:
  static constexpr int64_t kMostBytes = 8 << 20;
  /// The bytes that the system maps around a read at most, in addition to the bytes that are read.
  static constexpr int64_t kAroundBytes = 128 << 10;

  /// The files must outlive the object.
  explicit MappedPages(const ModelFiles& files) : files_(files) {}

  /// Returns the most bytes of the files that are mapped at the same time.
  static int64_t MostBytes(const ModelFiles& files) { return std::min(kMostBytes, files.TotalBytes() + kAroundBytes); }

  /// Call this before reading `places` places of the files, of `bytes` bytes each.
  void WillRead(int64_t places, int64_t bytes) {
    const int64_t more = places * (bytes + kAroundBytes);
    if (mapped_ + more > kMostBytes) {
      files_.ReleasePages();
      mapped_ = 0;
    }
    mapped_ += more;
  }
  /// Returns how many places of `bytes` bytes may be read after one call of WillRead.
  static int64_t PlacesAtOnce(int64_t bytes) { return std::max<int64_t>(1, kMostBytes / (bytes + kAroundBytes)); }

 private:
  const ModelFiles& files_;
  int64_t mapped_ = 0;
};

}  // namespace quire
