#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/block_pool.h"

namespace quire {

/// The blocks of a prefix that stays cached although nobody uses it.
struct PrefixPin {
  uint64_t id;
  double expires_seconds;  // on the engine's clock
  std::vector<BlockId> blocks;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(id, expires_seconds, blocks);
  }
};

/// Holds cached blocks of the pool until their time is over or somebody ends that. Pins hold half of the pool at most,
/// and all of them give way when a request could not run otherwise.
class PrefixPins {
 public:
  explicit PrefixPins(BlockPool& pool) : pool_(pool) {}

  /// Null when there are no blocks or no room for so many.
  const PrefixPin* Pin(std::vector<BlockId> blocks, double expires_seconds);
  /// False when there is no such pin (any more).
  bool Unpin(uint64_t id);
  /// True when there is a pin whose time is over.
  bool AnyDue(double now) const;
  void Expire(double now);
  /// Gives up every pin. False when there was none.
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
