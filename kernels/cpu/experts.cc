// Chooses experts by the router's scores and orders rows by expert. The code is plain C++, so that ranks with different
// instruction sets choose the same experts.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/check.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/route_experts.h"

namespace quire::kernels {

namespace {

/// Chooses the experts of one token at a time.
class Router {
 public:
  explicit Router(const RouteExpertsParams& params) : p_(params) {}

  void Route(int64_t token) {
    const std::span logits(p_.logits + token * p_.logits_stride, static_cast<size_t>(p_.num_experts));
    Score(logits);
    for (size_t e = 0; e < logits.size(); ++e) {
      compared_[e] = score_[e] + (p_.correction != nullptr ? p_.correction[e] : 0.0f);
      if (std::isnan(compared_[e])) compared_[e] = kNever;
    }
    if (p_.num_groups > 1) LeaveBestGroups();
    const auto count = static_cast<size_t>(p_.experts_per_token);
    const std::span experts(p_.experts + token * p_.experts_per_token, count);
    const std::span weights(p_.weights + token * p_.experts_per_token, count);
    Best({compared_.data(), logits.size()}, experts);
    if (p_.score == RouterScore::kSparseMixer) {
      Mix(experts, weights);
    } else {
      for (size_t j = 0; j < count; ++j) weights[j] = score_[static_cast<size_t>(experts[j])];
      Weigh(weights);
    }
    for (size_t j = 0; p_.expert_scales != nullptr && j < count; ++j) weights[j] *= p_.expert_scales[experts[j]];
  }

 private:
  static constexpr float kNever = -std::numeric_limits<float>::infinity();

  static void Softmax(std::span<const float> logits, float* out) {
    const float most = *std::ranges::max_element(logits);
    float sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) sum += out[i] = std::exp(logits[i] - most);
    for (size_t i = 0; i < logits.size(); ++i) out[i] /= sum;
  }

  void Score(std::span<const float> logits) {
    switch (p_.score) {
      case RouterScore::kSoftmax:
        return Softmax(logits, score_.data());
      case RouterScore::kSoftmaxOfChosen:
      case RouterScore::kSparseMixer:
        std::ranges::copy(logits, score_.begin());
        return;
      case RouterScore::kSigmoid:
        std::ranges::transform(logits, score_.begin(), [](float x) { return 1 / (1 + std::exp(-x)); });
        return;
    }
  }

  /// Fills `places` with the indices of the highest numbers in `numbers`, the highest number first. No index occurs
  /// twice, even if numbers are NaN.
  static void Best(std::span<const float> numbers, std::span<int32_t> places) {
    size_t count = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      size_t at = count;
      while (at > 0 && numbers[i] > numbers[static_cast<size_t>(places[at - 1])]) --at;
      if (at == places.size()) continue;
      count = std::min(count + 1, places.size());
      for (size_t j = count - 1; j > at; --j) places[j] = places[j - 1];
      places[at] = static_cast<int32_t>(i);
    }
  }

  /// Excludes all experts outside the groups_per_token best groups. A group ranks by the sum of its two highest scores.
  void LeaveBestGroups() {
    const auto groups = static_cast<size_t>(p_.num_groups), size = static_cast<size_t>(p_.num_experts) / groups;
    std::array<float, kMostExperts> sums;
    for (size_t g = 0; g < groups; ++g) {
      const std::span<const float> members(&compared_[g * size], size);
      std::array<int32_t, 2> two;
      Best(members, two);
      sums[g] = members[static_cast<size_t>(two[0])] + members[static_cast<size_t>(two[1])];
    }
    std::array<int32_t, kMostExperts> best;
    const std::span chosen(best.data(), static_cast<size_t>(p_.groups_per_token));
    Best({sums.data(), groups}, chosen);
    for (size_t g = 0; g < groups; ++g) {
      if (std::ranges::find(chosen, static_cast<int32_t>(g)) == chosen.end())
        std::fill_n(&compared_[g * size], size, kNever);
    }
  }

  void Weigh(std::span<float> weights) const {
    if (p_.score == RouterScore::kSoftmaxOfChosen) {
      Softmax(weights, weights.data());
    } else if (p_.renormalize) {
      float sum = p_.score == RouterScore::kSigmoid ? kLeastSigmoidSum : 0;
      for (const float weight : weights) sum += weight;
      for (float& weight : weights) weight /= sum;
    }
    for (float& weight : weights) weight *= p_.scale;
  }

  /// Computes the weights of kSparseMixer; score_ holds the logits.
  void Mix(std::span<const int32_t> experts, std::span<float> weights) const {
    for (size_t j = 0; j < experts.size(); ++j) {
      const auto before = experts.first(j);
      const float own = score_[static_cast<size_t>(experts[j])];
      float sum = 0;
      for (int32_t e = 0; e < p_.num_experts; ++e) {
        const float other = score_[static_cast<size_t>(e)];
        const bool far = (own - other) / std::max(std::abs(other), own) > p_.tolerance;
        if (!far && std::ranges::find(before, e) == before.end()) sum += std::exp(other - own);
      }
      weights[j] = p_.scale / sum;
    }
  }

  const RouteExpertsParams& p_;
  std::array<float, kMostExperts> score_, compared_;
};

}  // namespace

void RouteExperts(const CpuStream& stream, const RouteExpertsParams& p) {
  QUIRE_KERNEL_CHECK(p.num_experts <= kMostExperts && p.experts_per_token <= kMostExpertsPerToken);
  QUIRE_KERNEL_CHECK(p.num_experts % p.num_groups == 0 && (p.num_groups == 1 || p.num_experts >= 2 * p.num_groups));
  QUIRE_KERNEL_CHECK(p.score != RouterScore::kSparseMixer || (p.correction == nullptr && p.num_groups == 1));
  QUIRE_KERNEL_CHECK(p.experts_per_token <= p.num_experts / p.num_groups * p.groups_per_token);
  stream.pool().ForRange(p.num_tokens, 1, [&](int64_t begin, int64_t end, int) {
    Router router(p);
    for (int64_t t = begin; t < end; ++t) router.Route(t);
  });
}

void GroupByExpert(const CpuStream&, const GroupByExpertParams& p) {
  const auto here = [&p](int64_t pair) {
    const int64_t expert = p.experts[pair] - p.first_expert;
    return expert >= 0 && expert < p.num_experts ? expert : -1;
  };
  std::fill_n(p.start, p.num_experts + 1, 0);
  for (int64_t pair = 0; pair < p.num_pairs; ++pair) {
    if (const int64_t expert = here(pair); expert >= 0) ++p.start[expert + 1];
  }
  for (int64_t e = 0; e < p.num_experts; ++e) p.start[e + 1] += p.start[e];
  std::array<int32_t, kMostExperts> next;
  std::copy_n(p.start, p.num_experts, next.begin());
  for (int64_t pair = 0; pair < p.num_pairs; ++pair) {
    p.row_of_pair[pair] = -1;
    if (const int64_t expert = here(pair); expert >= 0) {
      const int32_t row = next[static_cast<size_t>(expert)]++;
      p.pair_of_row[row] = static_cast<int32_t>(pair);
      p.row_of_pair[pair] = row;
    }
  }
}

}  // namespace quire::kernels
