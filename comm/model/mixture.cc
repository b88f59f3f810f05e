#include "comm/model/mixture.h"

#include "comm/base/error.h"

namespace quire {

void CheckMixture(const Mixture& m, const std::string& path) {
  constexpr int64_t kMaxSize = 1 << 24;
  if (m.experts < 1 || m.experts > kMaxExperts) {
    Fail("{}: {} experts are out of range; there may be 1 to {}", path, m.experts, kMaxExperts);
  }
  if (m.groups < 1 || m.experts % m.groups != 0) Fail("{}: {} experts in {} groups", path, m.experts, m.groups);
  if (m.groups_per_token < 1 || m.groups_per_token > m.groups) {
    Fail("{}: a token chooses {} of {} groups of experts", path, m.groups_per_token, m.groups);
  }
  if (m.groups > 1 && m.group_size() < 2) Fail("{}: groups of one expert are not supported", path);
  if (m.experts_per_token < 1 || m.experts_per_token > m.groups_per_token * m.group_size() ||
      m.experts_per_token > kMaxExpertsPerToken) {
    Fail("{}: {} experts per token of {} are out of range; there may be 1 to {}", path, m.experts_per_token,
         m.groups_per_token * m.group_size(), kMaxExpertsPerToken);
  }
  if (m.intermediate_size < 1 || m.intermediate_size > kMaxSize) {
    Fail("{}: an expert's intermediate size of {} is out of range", path, m.intermediate_size);
  }
  if (m.shared_intermediate_size < 0 || m.shared_intermediate_size > kMaxSize) {
    Fail("{}: a shared expert's intermediate size of {} is out of range", path, m.shared_intermediate_size);
  }
  if (!(m.scale >= 1e-6 && m.scale <= 1e6)) Fail("{}: a scale of experts of {} is out of range", path, m.scale);
  QUIRE_CHECK(m.shared_intermediate_size > 0 || !m.shared_gate, "{}: a gate of no shared expert", path);
  QUIRE_CHECK(!m.normed_apart || (m.shared_intermediate_size > 0 && !m.shared_gate),
              "{}: norms of no shared expert, or of one with a gate", path);
  QUIRE_CHECK(!m.weighs_inputs || (!m.normed_apart && !m.expert_biases), "{}: weighed inputs of such experts", path);
  if (!(m.tolerance >= 0 && m.tolerance <= 1e6))
    Fail("{}: a router's tolerance of {} is out of range", path, m.tolerance);
  const bool of_logits = m.score == RouterScore::kSoftmaxOfChosen || m.score == RouterScore::kSparseMixer;
  if (of_logits && (m.correction_bias || m.groups > 1))
    Fail("{}: experts that are weighed by their logits and compared otherwise are not supported", path);
}

// The structured binding names every member, so a new member does not compile until it is added here.
std::string TextOf(const Mixture& mixture) {
  const auto& [experts, per_token, size, shared_size, shared_gate, score, tolerance, renormalize, scale, expert_scales,
               router_bias, correction_bias, expert_biases, file_rows, groups, groups_per_token, normed_apart,
               weighs_inputs] = mixture;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", experts, per_token, size, shared_size,
                     shared_gate, static_cast<int>(score), tolerance, renormalize, scale, expert_scales, router_bias,
                     correction_bias, expert_biases, static_cast<int>(file_rows), groups, groups_per_token,
                     normed_apart, weighs_inputs);
}

}  // namespace quire
