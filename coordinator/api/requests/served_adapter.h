#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace quire {

/// A LoRA adapter that a request names as its model. The ranks hold the adapter in memory while such an object exists.
struct ServedAdapter {
  std::string name, path;
  int number = 0;  // AddedSequence::adapter
  /// A hash of the adapter's contents, which is part of the salt of its cached blocks. Empty for adapters that the
  /// settings list: their `number` is never reused for another adapter.
  std::string contents;
  int64_t rank = 0, bytes = 0;         // the largest rank of its matrices; its bytes with 32-bit numbers
  std::shared_ptr<const void> lease;  // the ranks drop the adapter with its last holder; null: never
};

}  // namespace quire
