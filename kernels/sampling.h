#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// Drawing one token on the host, from a row that all ranks have gathered. Without a twin: CUDA draws for a whole batch,
// of which each rank has a part (cuda/sampling.h), with the same meaning.
namespace quire::kernels {

/// The highest logit of a row; the lowest id wins a tie. What is no number counts as -infinity.
struct Candidate {
  float logit;
  int32_t token;
};
Candidate ArgMax(std::span<const float> logits);

/// log(sum(exp(logits))), to about 1e-6.
double LogSumExp(std::span<const float> logits);

/// How one token is drawn. Defaults: no restriction; temperature 0 is greedy.
struct SamplingParams {
  float temperature = 1.0f;
  int32_t top_k = 0;  // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
};

/// Identifies one draw: the same key gives the same random number on every rank and in every replay.
struct DrawKey {
  uint64_t seed;
  uint32_t choice;    // index of the sequence inside its request
  uint64_t position;  // of the token that is drawn
};

/// A uniform number in [0, 1) from Philox4x32-10 (Salmon et al., SC'11) keyed by the draw.
double UniformFromKey(const DrawKey& key);

/// Draws a token: temperature, then top-k, min-p and top-p on the distribution that is left, in this order.
/// Candidates are ordered by falling logit, then rising id, so that the result is a pure function of its inputs.
/// -1 when the highest logit is not finite: there is nothing to draw.
int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, const DrawKey& key);

/// Lowers or raises the logits of tokens already seen. `seen` pairs a token with its number of occurrences among
/// the generated tokens; tokens that occur in the prompt only have count 0.
struct Penalties {
  float repetition = 1.0f;  // divides positive and multiplies negative logits of every seen token
  float frequency = 0.0f;   // times the count
  float presence = 0.0f;    // once when the count is above 0
};
void ApplyPenalties(std::span<float> logits, const Penalties& penalties,
                    std::span<const std::pair<int32_t, int32_t>> seen);

/// The `count` highest logits as (token, log-probability), best first.
std::vector<std::pair<int32_t, float>> TopLogprobs(std::span<const float> logits, double log_sum_exp, int count);

/// The place of a token among all by falling logit, then rising id, counted from 1: TopLogprobs' order.
int32_t RankOf(std::span<const float> logits, int32_t token);

}  // namespace quire::kernels
