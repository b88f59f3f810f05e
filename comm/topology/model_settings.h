#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// The pooling that makes embeddings; kAuto: as the model's files say.
enum class PoolingMode { kAuto, kLast, kMean, kCls, kNone };
constexpr auto ChoicesOf(PoolingMode) {
  return std::to_array<Choice<PoolingMode>>({{PoolingMode::kAuto, "auto"},
                                             {PoolingMode::kLast, "last"},
                                             {PoolingMode::kMean, "mean"},
                                             {PoolingMode::kCls, "cls"},
                                             {PoolingMode::kNone, "none"}});
}

/// The way of scoring pairs of texts. kAuto: cosine where the model pools, else yes/no where its tokens allow that.
enum class ScoringMode { kAuto, kYesNo, kCosine, kCrossEncoder, kNone };
constexpr auto ChoicesOf(ScoringMode) {
  return std::to_array<Choice<ScoringMode>>({{ScoringMode::kAuto, "auto"},
                                             {ScoringMode::kYesNo, "yes-no"},
                                             {ScoringMode::kCosine, "cosine"},
                                             {ScoringMode::kCrossEncoder, "cross-encoder"},
                                             {ScoringMode::kNone, "none"}});
}

/// The source of sampling defaults for requests that set none. kModel: the model's files, where they bring any. kQuire:
/// Quire's own, whatever the files say. kAuto: kModel where the files bring any, else kQuire. kNone: those of OpenAI's
/// API, which shorten no choice.
enum class GenerationConfigMode { kAuto, kModel, kQuire, kNone };
constexpr auto ChoicesOf(GenerationConfigMode) {
  return std::to_array<Choice<GenerationConfigMode>>({{GenerationConfigMode::kAuto, "auto"},
                                                      {GenerationConfigMode::kModel, "model"},
                                                      {GenerationConfigMode::kQuire, "quire"},
                                                      {GenerationConfigMode::kNone, "none"}});
}

}  // namespace quire
