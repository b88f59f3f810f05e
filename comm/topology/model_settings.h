#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// What embeddings are made of; kAuto: what the model's files say.
enum class PoolingMode { kAuto, kLast, kMean, kCls, kNone };
constexpr auto ChoicesOf(PoolingMode) {
  return std::to_array<Choice<PoolingMode>>({{PoolingMode::kAuto, "auto"},
                                             {PoolingMode::kLast, "last"},
                                             {PoolingMode::kMean, "mean"},
                                             {PoolingMode::kCls, "cls"},
                                             {PoolingMode::kNone, "none"}});
}

/// How pairs of texts are scored; kAuto: by cosine where the model pools, else by yes and no where its tokens allow it.
enum class ScoringMode { kAuto, kYesNo, kCosine, kNone };
constexpr auto ChoicesOf(ScoringMode) {
  return std::to_array<Choice<ScoringMode>>({{ScoringMode::kAuto, "auto"},
                                             {ScoringMode::kYesNo, "yes-no"},
                                             {ScoringMode::kCosine, "cosine"},
                                             {ScoringMode::kNone, "none"}});
}

/// Whose sampling defaults hold where a request has none; kAuto: those of the model's generation_config.json, if there
/// is one.
enum class GenerationConfigMode { kAuto, kNone };
constexpr auto ChoicesOf(GenerationConfigMode) {
  return std::to_array<Choice<GenerationConfigMode>>(
      {{GenerationConfigMode::kAuto, "auto"}, {GenerationConfigMode::kNone, "none"}});
}

}  // namespace quire
