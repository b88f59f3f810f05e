#pragma once

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "comm/wire/step_plan.h"

namespace quire::test {

inline constexpr int64_t kEffectVocab = 50;

/// The effect of a sampling setting. With the logits of Row() after the tokens of `prompt` and `generated`, exactly the
/// tokens in `drawn` are sampled: each at some seed from 0 to kEffectSeeds - 1.
struct SamplingEffect {
  const char* what;
  std::vector<std::pair<TokenId, float>> logits;  // logits of the tokens that matter; all others are far lower
  SamplingSpec spec;                              // used with each seed
  std::set<TokenId> drawn;
  std::vector<TokenId> prompt = {1}, generated = {};

  std::vector<float> Row() const {
    std::vector<float> row(kEffectVocab, -500);
    for (const auto& [token, logit] : logits) row[static_cast<size_t>(token)] = logit;
    return row;
  }
};

inline constexpr uint64_t kEffectSeeds = 64;

/// Returns cases for all sampling settings, over a vocabulary of kEffectVocab tokens. A sampler that confuses two
/// settings, or reads a value that is off by one, samples other tokens in at least one case.
inline std::vector<SamplingEffect> SamplingEffects() {
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  const std::vector<std::pair<TokenId, float>> close = {{3, 5.0f}, {40, 3.5f}}, negative = {{3, -5.0f}, {40, -6.0f}},
                                               halves = {{3, log(0.5)}, {20, log(0.3)}, {40, log(0.2)}},
                                               ties = {{7, 2.0f}, {20, 2.0f}, {33, 2.0f}, {40, 1.0f}},
                                               steps = {{3, 0.0f}, {20, log(0.5) + 1e-3f}, {40, log(0.5) - 1e-3f}};
  return {
      {"presence counts once", close, {.temperature = 0, .presence_penalty = 1}, {3}, {1}, {3, 3, 3}},
      {"presence is subtracted", close, {.temperature = 0, .presence_penalty = 1.6f}, {40}, {1}, {3}},
      {"frequency counts each time", close, {.temperature = 0, .frequency_penalty = 0.6f}, {40}, {1}, {3, 3, 3}},
      {"frequency, not often enough", close, {.temperature = 0, .frequency_penalty = 0.6f}, {3}, {1}, {3, 3}},
      {"both add up",
       close,
       {.temperature = 0, .frequency_penalty = 0.6f, .presence_penalty = 0.4f},
       {40},
       {1},
       {3, 3}},
      {"a prompt is not generated",
       close,
       {.temperature = 0, .frequency_penalty = 2, .presence_penalty = 2},
       {3},
       {3, 3, 3}},
      {"repetition counts the prompt from the first token on",
       close,
       {.temperature = 0, .repetition_penalty = 2},
       {40},
       {3}},
      {"repetition counts generated tokens", close, {.temperature = 0, .repetition_penalty = 2}, {40}, {1}, {3}},
      {"repetition divides once", close, {.temperature = 0, .repetition_penalty = 1.3f}, {3}, {3, 3}, {3, 3}},
      {"repetition multiplies what is negative", negative, {.temperature = 0, .repetition_penalty = 1.3f}, {40}, {3}},
      {"repetition below one invites", close, {.temperature = 0, .repetition_penalty = 0.5f}, {40}, {40}},
      {"a bias is added", close, {.temperature = 0, .logit_bias = {{40, 1.6f}}}, {40}},
      {"a bias too small", close, {.temperature = 0, .logit_bias = {{40, 1.4f}}}, {3}},
      {"a negative bias is subtracted", close, {.temperature = 0, .logit_bias = {{3, -1.6f}}}, {40}},
      {"before min_tokens", close, {.temperature = 0, .banned_until_min = {3}, .min_tokens = 2}, {40}, {1}, {8}},
      {"after min_tokens", close, {.temperature = 0, .banned_until_min = {3}, .min_tokens = 2}, {3}, {1}, {8, 9}},
      {"a prompt is no part of min_tokens",
       close,
       {.temperature = 0, .banned_until_min = {3}, .min_tokens = 2},
       {40},
       {8, 9, 8}},
      {"the lowest id wins a tie", ties, {.temperature = 0}, {7}},
      {"the lowest id wins a tie of penalised tokens",
       {{30, 4.0f}, {40, 4.0f}},
       {.temperature = 0, .presence_penalty = 1},
       {30},
       {1},
       {30, 40}},
      {"top_k takes the lowest ids of a tie", ties, {.top_k = 2}, {7, 20}},
      {"top_k of one is greedy", halves, {.top_k = 1}, {3}},
      {"top_k of all", halves, {.top_k = 3}, {3, 20, 40}},
      {"top_p that the first reaches", halves, {.top_p = 0.499f}, {3}},
      {"top_p that the first does not reach", halves, {.top_p = 0.501f}, {3, 20}},
      {"top_p that two reach", halves, {.top_p = 0.799f}, {3, 20}},
      {"top_p that two do not reach", halves, {.top_p = 0.801f}, {3, 20, 40}},
      {"top_p of what top_k leaves", halves, {.top_k = 2, .top_p = 0.6f}, {3}},
      {"min_p keeps what has its share of the best", steps, {.min_p = 0.5f}, {3, 20}},
      {"min_p is of the share after temperature", steps, {.temperature = 2, .min_p = 0.5f}, {3, 20, 40}},
      {"a min_p of one is greedy", halves, {.min_p = 1}, {3}},
      {"no restriction", halves, {}, {3, 20, 40}},
  };
}

}  // namespace quire::test
