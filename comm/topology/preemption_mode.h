#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// How a preempted request gives up its KV blocks: their tokens are recomputed later, or the blocks are swapped to the
/// host. kAuto: the way that was measured to be cheaper.
enum class PreemptionMode { kAuto, kRecompute, kSwap };
constexpr auto ChoicesOf(PreemptionMode) {
  return std::to_array<Choice<PreemptionMode>>(
      {{PreemptionMode::kAuto, "auto"}, {PreemptionMode::kRecompute, "recompute"}, {PreemptionMode::kSwap, "swap"}});
}

}  // namespace quire
