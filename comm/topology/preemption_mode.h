#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// What becomes of the KV blocks of a preempted request. kRecompute: its tokens are computed again later. kSwap: the
/// blocks go to host memory. kAuto: the way that was measured to be cheaper.
enum class PreemptionMode { kAuto, kRecompute, kSwap };
constexpr auto ChoicesOf(PreemptionMode) {
  return std::to_array<Choice<PreemptionMode>>(
      {{PreemptionMode::kAuto, "auto"}, {PreemptionMode::kRecompute, "recompute"}, {PreemptionMode::kSwap, "swap"}});
}

}  // namespace quire
