#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// What becomes of the KV blocks of a request that gives way; kAuto: whatever measured cheaper.
enum class PreemptionMode { kAuto, kRecompute, kSwap };
constexpr auto ChoicesOf(PreemptionMode) {
  return std::to_array<Choice<PreemptionMode>>(
      {{PreemptionMode::kAuto, "auto"}, {PreemptionMode::kRecompute, "recompute"}, {PreemptionMode::kSwap, "swap"}});
}

}  // namespace quire
