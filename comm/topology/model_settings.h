#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// How a prompt is pooled into an embedding. kAuto: as the model's files say.
enum class PoolingMode { kAuto, kLast, kMean, kCls, kNone };
constexpr auto ChoicesOf(PoolingMode) {
  return std::to_array<Choice<PoolingMode>>({{PoolingMode::kAuto, "auto"},
                                             {PoolingMode::kLast, "last"},
                                             {PoolingMode::kMean, "mean"},
                                             {PoolingMode::kCls, "cls"},
                                             {PoolingMode::kNone, "none"}});
}

/// How pairs of texts are scored. kAuto takes the first of these that the model allows: its own layers for pairs
/// (kCrossEncoder); the cosine, if the model pools; the probability of "yes" against "no", if both words are tokens.
enum class ScoringMode { kAuto, kYesNo, kCosine, kCrossEncoder, kNone };
constexpr auto ChoicesOf(ScoringMode) {
  return std::to_array<Choice<ScoringMode>>({{ScoringMode::kAuto, "auto"},
                                             {ScoringMode::kYesNo, "yes-no"},
                                             {ScoringMode::kCosine, "cosine"},
                                             {ScoringMode::kCrossEncoder, "cross-encoder"},
                                             {ScoringMode::kNone, "none"}});
}

/// The source of the sampling settings that a request leaves out. kModel: the model's files, if they have any. kQuire:
/// Quire's own defaults. kAuto: as kModel if the files have defaults, otherwise as kQuire. kNone: the defaults of
/// OpenAI's API, with which every token is possible.
enum class GenerationConfigMode { kAuto, kModel, kQuire, kNone };
constexpr auto ChoicesOf(GenerationConfigMode) {
  return std::to_array<Choice<GenerationConfigMode>>({{GenerationConfigMode::kAuto, "auto"},
                                                      {GenerationConfigMode::kModel, "model"},
                                                      {GenerationConfigMode::kQuire, "quire"},
                                                      {GenerationConfigMode::kNone, "none"}});
}

}  // namespace quire
