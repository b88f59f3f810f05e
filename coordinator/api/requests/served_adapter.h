#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace quire {

/// A LoRA adapter that clients name as their model. Whoever holds it may send requests with it.
struct ServedAdapter {
  std::string name, path;
  int number = 0;  // AddedSequence::adapter
  /// A hash of its contents, which cached blocks are found by; empty: it was listed for the start, and its number
  /// never means another one.
  std::string contents;
  int64_t rank = 0, bytes = 0;         // the largest rank; bytes of its numbers in 32 bits
  std::shared_ptr<const void> lease;  // the ranks drop the adapter with its last holder; null: never
};

}  // namespace quire
