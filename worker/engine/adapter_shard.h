#pragma once

#include <cstdint>

namespace quire {

/// A rank's part of a LoRA adapter, as the rank's engine computes with it. It does not change.
class AdapterShard {
 public:
  virtual ~AdapterShard() = default;
  /// Bytes of memory that it takes.
  virtual int64_t bytes() const = 0;
};

}  // namespace quire
