#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// The largest numbers of experts, and of experts per token, that a model may have, because kernels have arrays of
/// fixed size for experts.
inline constexpr int64_t kMaxExperts = 1024, kMaxExpertsPerToken = 32;

/// The score that a router computes from its logits to choose experts.
enum class RouterScore : uint8_t {
  kSoftmax,          // a softmax over all experts
  kSoftmaxOfChosen,  // the logits; the weights are a softmax over the chosen experts' logits
  kSigmoid,          // the sigmoid of each logit
  kSparseMixer,      // the logits; kernels/route_experts.h has the formula of the weights; uses Mixture::tolerance
};

/// The layout of the experts' gates and ups in a file.
enum class GateUpRows : uint8_t {
  kApart,        // separate tensors
  kInOrder,      // rows of one tensor: all gates of an expert, then its ups
  kAlternating,  // rows of one tensor: gates and ups alternate
};

/// A mixture of experts: a router chooses some experts for each token. The output is
///  sum of weight * expert(x) over the chosen experts + sigmoid(x * shared gate^T) * shared(x).
/// The shared expert and its gate are optional. Experts are MLPs, gated or not as ModelSpec::gated_mlp says.
struct Mixture {
  int64_t experts = 0;  // 0: the model has no mixture
  int64_t experts_per_token = 0;
  int64_t intermediate_size = 0;         // columns of one expert's MLP
  int64_t shared_intermediate_size = 0;  // columns of the MLP that every token uses; 0: none
  bool shared_gate = false;
  RouterScore score = RouterScore::kSoftmax;
  double tolerance = 0;          // relative distance up to which kSparseMixer treats logits as near
  bool renormalize = false;      // the weights of the chosen experts are divided by their sum
  double scale = 1;              // multiplies the weights
  bool expert_scales = false;    // each expert has a factor, which multiplies its weight last
  bool router_bias = false;      // a bias is added to the logits
  bool correction_bias = false;  // a bias is added to the scores for choosing, but not to the weights
  bool expert_biases = false;    // experts' gates, ups and downs have biases
  GateUpRows file_rows = GateUpRows::kApart;
  /// The experts form `groups` groups of equal size, each of neighbouring experts. A token chooses only among the
  /// experts of its groups_per_token best groups. A group's rank is given by the sum of its two highest scores.
  int64_t groups = 1, groups_per_token = 1;
  /// True when the router, the experts and the shared expert each read the residual through a norm of their own. The
  /// router's input is also divided by the square root of the hidden size. The outputs of the chosen experts and of the
  /// shared expert are each normed before they are added.
  bool normed_apart = false;
  /// True when an expert's weight multiplies the expert's input instead of its output.
  bool weighs_inputs = false;

  int64_t group_size() const { return experts / groups; }
};

/// Throws Error, which begins with `path`, when a number is out of range or two numbers contradict each other.
void CheckMixture(const Mixture& mixture, const std::string& path);

/// Returns every field as text, for fingerprints.
std::string TextOf(const Mixture& mixture);

}  // namespace quire
