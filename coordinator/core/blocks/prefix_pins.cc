#include "coordinator/core/blocks/prefix_pins.h"

#include <algorithm>
#include <utility>

namespace quire {

const PrefixPin* PrefixPins::Pin(std::vector<BlockId> blocks, double expires_seconds) {
  size_t pinned = blocks.size();
  for (const PrefixPin& pin : pins_) pinned += pin.blocks.size();
  if (blocks.empty() || pinned > static_cast<size_t>(pool_.num_usable()) / 2) return nullptr;
  for (const BlockId block : blocks) pool_.AddReference(block);
  pins_.push_back({next_id_++, expires_seconds, std::move(blocks)});
  return &pins_.back();
}

bool PrefixPins::Unpin(uint64_t id) {
  const auto pin = std::ranges::find(pins_, id, &PrefixPin::id);
  if (pin == pins_.end()) return false;
  pool_.ReleaseAll(pin->blocks);
  pins_.erase(pin);
  return true;
}

bool PrefixPins::AnyDue(double now) const {
  return std::ranges::any_of(pins_, [&](const PrefixPin& pin) { return pin.expires_seconds <= now; });
}

void PrefixPins::Expire(double now) {
  std::erase_if(pins_, [&](const PrefixPin& pin) {
    if (pin.expires_seconds > now) return false;
    pool_.ReleaseAll(pin.blocks);
    return true;
  });
}

bool PrefixPins::Break() {
  for (const PrefixPin& pin : pins_) pool_.ReleaseAll(pin.blocks);
  return !std::exchange(pins_, {}).empty();
}

}  // namespace quire
