#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// Sampling, penalties and log-probabilities on the host. Each function takes one whole row of logits, which the ranks
// have gathered. CPU only: CUDA samples for a whole batch from sharded rows, with the same meaning
// (cuda/sampling/sampling.h).
namespace quire::kernels {

/// The highest logit of a row; the lowest id wins a tie. NaN counts as -infinity.
struct Candidate {
  float logit;
  int32_t token;
};
Candidate ArgMax(std::span<const float> logits);

/// Returns log(sum(exp(logits))), with an error of about 1e-6.
double LogSumExp(std::span<const float> logits);

/// The settings of a sample. The defaults restrict nothing. With temperature 0 the best token is chosen.
struct SamplingParams {
  float temperature = 1.0f;
  int32_t top_k = 0;  // 0: no limit
  float top_p = 1.0f;
  float min_p = 0.0f;
};

/// Identifies one sample. Equal keys give the same random number on every rank and in every replay.
struct DrawKey {
  uint64_t seed;
  uint32_t choice;    // index of the sequence within its request
  uint64_t position;  // position of the sampled token
};

/// Returns a uniform number in [0, 1) from Philox4x32-10 (Salmon et al., SC'11) for the key.
double UniformFromKey(const DrawKey& key);

/// Samples a token: applies the temperature, then top-k, min-p and top-p, each to the tokens that the previous filter
/// left. Candidates are ordered by falling logit, then by rising id, so the result depends only on the arguments.
/// Returns -1 if the highest logit is not finite.
int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, const DrawKey& key);

/// Penalties for tokens already seen. `seen` pairs each token with its number of occurrences among the generated
/// tokens. Tokens that occur only in the prompt have count 0.
struct Penalties {
  float repetition = 1.0f;  // positive logits of seen tokens are divided by this, negative ones multiplied
  float frequency = 0.0f;   // subtracted once per occurrence
  float presence = 0.0f;    // subtracted once if the count is above 0
};
void ApplyPenalties(std::span<float> logits, const Penalties& penalties,
                    std::span<const std::pair<int32_t, int32_t>> seen);

/// Returns the `count` highest logits as (token, log-probability), best first.
std::vector<std::pair<int32_t, float>> TopLogprobs(std::span<const float> logits, double log_sum_exp, int count);

/// Returns the rank of a token by falling logit, then rising id (the order of TopLogprobs), counted from 1.
int32_t RankOf(std::span<const float> logits, int32_t token);

}  // namespace quire::kernels
