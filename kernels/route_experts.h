#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace quire::kernels {

/// The function that turns a router's logits into scores.
enum class RouterScore : uint8_t {
  kSoftmax,          // softmax over all experts
  kSoftmaxOfChosen,  // scores are logits; weights are a softmax over the logits of the chosen experts
  kSigmoid,
  /// Scores are logits. The weight of a chosen expert is its share of a softmax over some experts: those that were not
  /// chosen before it and have logits near its own: (own - other) / max(|other|, own) <= tolerance (arXiv 2409.12136).
  kSparseMixer,
};

/// The highest supported numbers of experts and of experts per token.
inline constexpr int64_t kMostExperts = 1024, kMostExpertsPerToken = 32;

/// Chooses for each token the experts with the highest scores; the lower number wins a tie. With groups, experts come
/// only from the groups_per_token groups with the highest sums of their two highest scores. Scores are fp32.
/// Batch-invariant; the CPU's results do not depend on the instruction set.
struct RouteExpertsParams {
  const float* logits;  // [num_tokens, num_experts], rows logits_stride floats apart; NaN ranks below all numbers
  int64_t logits_stride;
  const float* correction;  // [num_experts], added to scores for the comparison, not for weights; null: none
  int32_t* experts;         // [num_tokens, experts_per_token], best first, without repetition
  float* weights;           // [num_tokens, experts_per_token]: scores, divided by their sum if renormalize, times scale
  int64_t num_tokens;
  int64_t num_experts;
  int64_t experts_per_token;
  RouterScore score = RouterScore::kSoftmax;
  float tolerance = 0;  // only for kSparseMixer, which allows neither correction nor groups
  bool renormalize = false;
  float scale = 1;
  int64_t num_groups = 1;  // groups of num_experts / num_groups (at least 2) neighbouring experts
  int64_t groups_per_token = 1;
  const float* expert_scales = nullptr;  // [num_experts], a final factor of the weights; null: none
};
void RouteExperts(const CpuStream& stream, const RouteExpertsParams& params);
void RouteExperts(const CudaStream& stream, const RouteExpertsParams& params);

/// Added to the sum of sigmoids before division by the sum, which may be 0.
inline constexpr float kLeastSigmoidSum = 1e-20f;

/// Orders pairs (token, choice) by expert, so that the weights of each expert are read once for all its tokens. The
/// order is that of a stable counting sort; pair = token * experts_per_token + choice. Pairs whose expert lies outside
/// [first_expert, first_expert + num_experts) are left out, because another rank has that expert.
struct GroupByExpertParams {
  const int32_t* experts;  // [num_pairs] expert of each pair
  int64_t num_pairs;
  int64_t num_experts;
  int32_t* start;        // [num_experts + 1]: expert first_expert + e has rows [start[e], start[e + 1])
  int32_t* pair_of_row;  // [num_pairs]; only the first start[num_experts] are written
  int32_t* row_of_pair;  // [num_pairs]; -1: left out
  int64_t first_expert = 0;
};
void GroupByExpert(const CpuStream& stream, const GroupByExpertParams& params);
void GroupByExpert(const CudaStream& stream, const GroupByExpertParams& params);

}  // namespace quire::kernels
