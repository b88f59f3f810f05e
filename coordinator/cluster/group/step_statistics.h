#pragma once

#include <array>

#include "comm/wire/step_plan.h"
#include "coordinator/cluster/group/distribution.h"

namespace quire {

/// Distributions over the steps of one replica since the start. Belongs to the engine's thread.
struct StepStatistics {
  /// The bucket bounds for tokens per step, as in vLLM.
  static constexpr std::array<double, 15> kTokenBounds = {1,   8,    16,   32,   64,   128,   256,  512,
                                                          768, 1024, 2048, 4096, 8192, 12288, 16384};
  static constexpr std::array<double, 14> kSecondBounds = {.0005, .001, .002, .005, .01, .02, .05,
                                                           .1,    .2,   .5,   1,    2,   5,   10};

  Distribution tokens{kTokenBounds};
  Distribution seconds{kSecondBounds};

  void Sent(const StepPlan& plan) {
    tokens.Observe(plan.num_tokens());
  }
  void Done(double step_seconds) { seconds.Observe(step_seconds); }
};

}  // namespace quire
