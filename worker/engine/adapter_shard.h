#pragma once

#include <cstdint>

namespace quire {

/// A rank's part of a LoRA adapter, in the form with which the rank's engine computes. It is immutable.
class AdapterShard {
 public:
  virtual ~AdapterShard() = default;
  /// Returns the number of bytes of memory that the shard takes.
  virtual int64_t bytes() const = 0;
};

}  // namespace quire
