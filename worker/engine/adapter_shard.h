#pragma once

#include <cstdint>

namespace quire {

/// A rank's part of a LoRA adapter, in the form in which the rank's engine computes with it. It does not change.
class AdapterShard {
 public:
  virtual ~AdapterShard() = default;
  /// Returns the number of bytes of memory that the shard takes.
  virtual int64_t bytes() const = 0;
};

}  // namespace quire
