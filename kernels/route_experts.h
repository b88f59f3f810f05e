#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// What a router's logits become before they are compared.
enum class RouterScore : uint8_t {
  kSoftmax,          // over all experts
  kSoftmaxOfChosen,  // they stay; the weights are a softmax over those of the chosen experts
  kSigmoid,
  /// They stay; the weight of a chosen expert is its part of a softmax over the experts that were not chosen before it
  /// and whose logits are near its own: (own - other) / max(|other|, own) <= tolerance (arXiv 2409.12136).
  kSparseMixer,
};

/// Bounds of what one token chooses among.
inline constexpr int64_t kMostExperts = 1024, kMostExpertsPerToken = 32;

/// Chooses experts for each token: those with the highest scores, of equal scores the one with the lower number first.
/// With groups, only experts of the groups whose two highest scores have the highest sums are chosen. Scores are fp32.
/// Batch-invariant; the CPU's results do not depend on its instruction set.
struct RouteExpertsParams {
  const float* logits;  // [num_tokens, num_experts], rows logits_stride floats apart; NaN is below all
  int64_t logits_stride;
  const float* correction;  // [num_experts], joins scores that are compared, but not weights; or null
  int32_t* experts;         // [num_tokens, experts_per_token], the best first, each once
  float* weights;           // [num_tokens, experts_per_token]: scores, divided by their sum with renormalize, scaled
  int64_t num_tokens;
  int64_t num_experts;
  int64_t experts_per_token;
  RouterScore score = RouterScore::kSoftmax;
  float tolerance = 0;  // of kSparseMixer, which has neither correction nor groups
  bool renormalize = false;
  float scale = 1;
  int64_t num_groups = 1;  // of num_experts / num_groups neighbours each, at least two
  int64_t groups_per_token = 1;
  const float* expert_scales = nullptr;  // [num_experts], multiplies weights at last; or null
};
void RouteExperts(const CpuStream& stream, const RouteExpertsParams& params);
void RouteExperts(const CudaStream& stream, const RouteExpertsParams& params);

/// Added to the sum that sigmoids are divided by, which may be 0.
inline constexpr float kLeastSigmoidSum = 1e-20f;

/// Orders what tokens chose by expert, so that each expert's weights are read once for all of its tokens: a stable
/// counting sort of the pairs (token, choice), which are numbered token * experts_per_token + choice. Pairs of experts
/// outside of [first_expert, first_expert + num_experts) are left out: another rank has those.
struct GroupByExpertParams {
  const int32_t* experts;  // [num_pairs]
  int64_t num_pairs;
  int64_t num_experts;
  int32_t* start;        // [num_experts + 1]: expert first_expert + e has rows start[e] to start[e + 1] - 1
  int32_t* pair_of_row;  // [num_pairs], of which start[num_experts] are written
  int32_t* row_of_pair;  // [num_pairs]; -1: none
  int64_t first_expert = 0;
};
void GroupByExpert(const CpuStream& stream, const GroupByExpertParams& params);
void GroupByExpert(const CudaStream& stream, const GroupByExpertParams& params);

}  // namespace quire::kernels
