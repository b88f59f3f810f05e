#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collective/stage_link.h"
#include "comm/wire/step_plan.h"

namespace quire {

/// Carries the tokens of a step from the last stage of a pipeline, which samples them, to the other stages.
class StageTokens {
 public:
  /// Sends a step's tokens from the last stage to all other stages. `most`: the number of rows in which the step
  /// samples a token.
  void Give(StageLink& link, const std::vector<SampledToken>& tokens, size_t most);
  /// Receives the slots and ids of the tokens of a step that samples a token in `most` rows.
  std::vector<SampledToken> Take(StageLink& link, size_t most);

 private:
  std::vector<int32_t> handed_;  // the number of tokens, then slot and token of each
};

}  // namespace quire
