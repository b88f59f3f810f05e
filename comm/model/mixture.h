#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// More are refused; kernels have room for so many.
inline constexpr int64_t kMaxExperts = 1024, kMaxExpertsPerToken = 32;

/// What a router makes of its logits before it chooses.
enum class RouterScore : uint8_t {
  kSoftmax,          // over all experts
  kSoftmaxOfChosen,  // the logits as they are; the weights are a softmax over those of the chosen ones
  kSigmoid,          // of each logit by itself
  kSparseMixer,      // the logits as they are; kernels/route_experts.h has the weights; Mixture::tolerance
};

/// How a file has gates and ups of experts.
enum class GateUpRows : uint8_t {
  kApart,        // as tensors of their own
  kInOrder,      // as rows of one: all gates of an expert, then its ups
  kAlternating,  // every other row
};

/// An MLP that is made of experts, of which a router chooses some for every token. It gives
///   sum of weight * expert(x) over the chosen ones + sigmoid(x * shared gate^T) * shared(x),
/// where the shared expert, and its gate, may be missing. Experts are MLPs, gated or not as ModelSpec::gated_mlp says.
struct Mixture {
  int64_t experts = 0;  // 0: the model has no mixture
  int64_t experts_per_token = 0;
  int64_t intermediate_size = 0;         // of one expert
  int64_t shared_intermediate_size = 0;  // of what every token goes through; 0: nothing
  bool shared_gate = false;
  RouterScore score = RouterScore::kSoftmax;
  double tolerance = 0;          // of kSparseMixer
  bool renormalize = false;      // the weights of the chosen ones are divided by their sum
  double scale = 1;              // multiplies the weights
  bool expert_scales = false;    // each weight is multiplied at last by a number of its expert
  bool router_bias = false;      // joins the logits
  bool correction_bias = false;  // joins the scores that are compared, not the weights
  bool expert_biases = false;    // gates, ups and downs of experts have biases
  GateUpRows file_rows = GateUpRows::kApart;
  /// Experts come in so many groups of equal size, neighbours together. A token chooses among those of its best groups:
  /// the ones whose two highest scores have the highest sums.
  int64_t groups = 1, groups_per_token = 1;
  /// Router, experts and shared expert read the residual through a norm of each, the router's divided by the root of
  /// the hidden size; and the two terms of the sum are normed, each by itself, before they are added.
  bool normed_apart = false;

  int64_t group_size() const { return experts / groups; }
};

/// Throws Error beginning with `path` when a number is out of its range or two contradict each other.
void CheckMixture(const Mixture& mixture, const std::string& path);

/// Every field as text.
std::string TextOf(const Mixture& mixture);

}  // namespace quire
