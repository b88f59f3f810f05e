#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace quire {

/// A LoRA adapter that clients name as their model. While such an object lives, requests can use the adapter.
struct ServedAdapter {
  std::string name, path;
  int number = 0;  // AddedSequence::adapter
  /// A hash of the adapter's contents, part of the salt of its cached blocks. Empty for adapters of the settings, whose
  /// numbers never stand for other adapters.
  std::string contents;
  int64_t rank = 0, bytes = 0;         // the largest rank; bytes of its numbers in 32 bits
  std::shared_ptr<const void> lease;  // the ranks drop the adapter with its last holder; null: never
};

}  // namespace quire
