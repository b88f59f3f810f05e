#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/blocks/block_pool.h"

namespace quire {

/// The blocks of a prefix that stay cached although no request uses them.
struct PrefixPin {
  uint64_t id;
  double expires_seconds;  // time at which the pin ends, in seconds on the engine's clock
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(id, expires_seconds, blocks);
  }
};

/// Holds cached blocks until their pin expires or is ended. Pins hold at most half of the pool. All pins end when a
/// request could not run otherwise.
class PrefixPins {
 public:
  explicit PrefixPins(BlockPool& pool) : pool_(pool) {}

  /// Pins the blocks. Returns null, and pins nothing, when `blocks` is empty or all pins together would hold more than
  /// half of the pool.
  const PrefixPin* Pin(std::vector<BlockId> blocks, double expires_seconds);
  /// Ends a pin. Returns false when the id is unknown.
  bool Unpin(uint64_t id);
  /// True when a pin has expired.
  bool AnyDue(double now) const;
  /// Ends the pins that have expired.
  void Expire(double now);
  /// Ends all pins. Returns false when there were none.
  bool Break();

  const std::vector<PrefixPin>& all() const { return pins_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(pins_, next_id_);
  }

 private:
  BlockPool& pool_;
  std::vector<PrefixPin> pins_;
  uint64_t next_id_ = 1;
};

}  // namespace quire
