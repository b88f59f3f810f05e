#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"

namespace quire::kernels {

namespace {

/// Computes Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products and a Weyl sequence on the key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// Returns the logit, or -infinity in place of NaN.
float OrNothing(float logit) { return std::isnan(logit) ? kNothing : logit; }

/// The weights with which a row's tokens are sampled, relative to the best token's weight. Valid until the same thread
/// calls WeightsOf again.
struct Weights {
  std::span<const float> of_token;
  std::span<const float> of_block;  // one sum per kWeighBlock tokens
  double total;
};

/// Computes the weights of a row's tokens. Tokens with logits below `least` get weight 0.
Weights WeightsOf(std::span<const float> logits, float max, float temperature, float least) {
  constexpr float kLeastTemperature = 1e-30f;  // a small temperature whose inverse is finite
  thread_local std::vector<float> weights, sums;
  weights.resize(logits.size());
  sums.resize((logits.size() + kWeighBlock - 1) / kWeighBlock);
  ActiveTable().weigh({logits.data(), static_cast<int64_t>(logits.size()), max,
                       1 / std::max(temperature, kLeastTemperature), least, weights.data(), sums.data()});
  return {weights, sums, std::accumulate(sums.begin(), sums.end(), 0.0)};
}

/// Returns the lowest float logit whose weight is at least `share` of the best token's weight. Callers compare logits,
/// not weights, because several logits may have the same weight.
float LogitOfShare(float max, float temperature, double share) {
  if (share <= 0) return kNothing;
  const double least = max + static_cast<double>(temperature) * std::log(share);
  const auto nearest = static_cast<float>(least);
  return nearest < least ? std::nextafter(nearest, std::numeric_limits<float>::infinity()) : nearest;
}

struct Ranked {
  float logit, weight;
  int32_t token;
};

bool Before(const Ranked& a, const Ranked& b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; }

double Mass(std::span<const Ranked> ranked) {
  return std::accumulate(ranked.begin(), ranked.end(), 0.0, [](double sum, const Ranked& r) { return sum + r.weight; });
}

/// Returns the tokens with the highest logits, sorted by id: at least `count` tokens, with a total weight of at least
/// `mass`, or all tokens that have a weight.
std::vector<Ranked> Head(std::span<const float> logits, const Weights& weights, float max, float temperature,
                         size_t count, double mass) {
  std::vector<Ranked> head;
  head.reserve(logits.size());
  for (double share = 0x1p-6;; share = share > 0x1p-60 ? share * share : 0) {  // the first share suffices for most rows
    head.clear();
    const float cut = LogitOfShare(max, temperature, share);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] >= cut && weights.of_token[i] > 0)
        head.push_back({logits[i], weights.of_token[i], static_cast<int32_t>(i)});
    }
    if (share == 0 || (head.size() >= count && Mass(head) >= mass)) return head;
  }
}

/// Finds the last token of the shortest prefix, in the order of falling logits, whose amounts sum up to `enough`;
/// returns the last token in this order if no prefix has enough. `amount` returns a token's contribution. `ranked` is
/// sorted by id. Buckets of equal ranges of logits narrow the search to the tokens around the end of the prefix, and
/// only these tokens are sorted. So sampling takes time proportional to the row's length, whatever the request's
/// settings.
template <class Amount>
Ranked LastOfHead(std::span<const Ranked> ranked, double enough, Amount amount) {
  constexpr size_t kBuckets = 1024, kFew = 64;
  std::vector<Ranked> part;  // copy of the tokens under search after the first round
  double before = 0;         // sum of the amounts of the tokens with higher logits than `ranked`
  while (true) {
    const auto [least, most] = std::ranges::minmax(ranked, {}, &Ranked::logit);
    if (least.logit == most.logit) break;  // among equal logits the order by id is right
    if (ranked.size() <= kFew) {
      part.assign(ranked.begin(), ranked.end());
      std::ranges::sort(part, Before);
      ranked = part;
      break;
    }
    const double high = most.logit, scale = kBuckets / (high - least.logit);
    const auto bucket_of = [&](const Ranked& r) {
      return std::min(kBuckets - 1, static_cast<size_t>((high - r.logit) * scale));
    };
    std::array<double, kBuckets> amounts{};
    for (const Ranked& r : ranked) amounts[bucket_of(r)] += amount(r);
    size_t bucket = 0;
    for (; bucket + 1 < kBuckets && before + amounts[bucket] < enough; ++bucket) before += amounts[bucket];
    std::vector<Ranked> inside;
    std::ranges::copy_if(ranked, std::back_inserter(inside), [&](const Ranked& r) { return bucket_of(r) == bucket; });
    part = std::move(inside);
    ranked = part;
  }
  for (const Ranked& r : ranked) {
    before += amount(r);
    if (before >= enough) return r;
  }
  return ranked.back();
}

/// Reduces `ranked` to the shortest prefix, in the order of falling logits, whose amounts sum up to `enough`, but to at
/// least one token. The tokens stay in the order of their ids.
template <class Amount>
void KeepHead(std::vector<Ranked>& ranked, double enough, Amount amount) {
  const Ranked last = LastOfHead(ranked, enough, amount);
  std::erase_if(ranked, [&](const Ranked& r) { return Before(last, r); });
}

/// Returns the tokens that top-k and then top-p leave, sorted by id. The order by id makes the sampled token
/// independent of the way in which the tokens were found.
std::vector<Ranked> Restricted(std::span<const float> logits, const Weights& weights, float max,
                               const SamplingParams& params) {
  const auto top_k = static_cast<size_t>(std::max(0, params.top_k));
  const double top_p = params.top_p;
  std::vector<Ranked> kept =
      Head(logits, weights, max, params.temperature, top_k, top_k > 0 ? 0 : top_p * weights.total);
  if (top_k > 0 && top_k < kept.size()) KeepHead(kept, static_cast<double>(top_k), [](const Ranked&) { return 1.0; });
  if (top_p < 1)
    KeepHead(kept, top_p * (top_k > 0 ? Mass(kept) : weights.total),
             [](const Ranked& r) { return static_cast<double>(r.weight); });
  return kept;
}

/// Returns the first token, in the order of ids, up to which the weights sum up to more than `left`. If rounding leads
/// past the end of that token's block, returns the block's last token with a weight. Returns `otherwise` if all weights
/// together do not exceed `left`.
int32_t Walk(const Weights& weights, double left, int32_t otherwise) {
  for (size_t block = 0; block < weights.of_block.size(); ++block) {
    if (left >= weights.of_block[block]) {
      left -= weights.of_block[block];
      continue;
    }
    const size_t begin = block * kWeighBlock, end = std::min(begin + kWeighBlock, weights.of_token.size());
    for (size_t i = begin; i < end; ++i) {
      if (weights.of_token[i] == 0) continue;
      otherwise = static_cast<int32_t>(i);
      left -= weights.of_token[i];
      if (left < 0) break;
    }
    break;
  }
  return otherwise;
}

}  // namespace

Candidate ArgMax(std::span<const float> logits) {
  QUIRE_KERNEL_CHECK(!logits.empty());
  const float max = ActiveTable().row_max(logits.data(), static_cast<int64_t>(logits.size()));
  const auto first = std::ranges::find(logits, max);
  return {max, first == logits.end() ? 0 : static_cast<int32_t>(first - logits.begin())};
}

double LogSumExp(std::span<const float> logits) {
  const float max = ArgMax(logits).logit;
  return max + std::log(WeightsOf(logits, max, 1, kNothing).total);
}

double UniformFromKey(const DrawKey& key) {
  const auto bits =
      Philox({static_cast<uint32_t>(key.position), static_cast<uint32_t>(key.position >> 32), key.choice, 0},
             {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 21) ^ (bits[1] >> 11);
  return static_cast<double>(mantissa) * 0x1p-53;
}

int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, const DrawKey& key) {
  const Candidate best = ArgMax(logits);
  if (!std::isfinite(best.logit)) return -1;
  if (params.temperature <= 0.0f || params.top_k == 1) return best.token;

  const float least = LogitOfShare(best.logit, params.temperature, params.min_p);
  const Weights weights = WeightsOf(logits, best.logit, params.temperature, least);
  const double uniform = UniformFromKey(key);
  const bool all = params.top_k <= 0 || static_cast<size_t>(params.top_k) >= logits.size();
  if (all && params.top_p >= 1) return Walk(weights, uniform * weights.total, best.token);

  const std::vector<Ranked> kept = Restricted(logits, weights, best.logit, params);
  double left = uniform * Mass(kept);
  for (const Ranked& r : kept) {
    left -= r.weight;
    if (left < 0) return r.token;
  }
  return best.token;
}

void ApplyPenalties(std::span<float> logits, const Penalties& penalties,
                    std::span<const std::pair<int32_t, int32_t>> seen) {
  for (const auto& [token, count] : seen) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
    if (count > 0) logit -= penalties.frequency * static_cast<float>(count) + penalties.presence;
  }
}

std::vector<std::pair<int32_t, float>> TopLogprobs(std::span<const float> logits, double log_sum_exp, int count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<ptrdiff_t>(count, static_cast<ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float x = OrNothing(logits[static_cast<size_t>(a)]), y = OrNothing(logits[static_cast<size_t>(b)]);
    return x != y ? x > y : a < b;
  });
  std::vector<std::pair<int32_t, float>> top;
  for (auto it = order.begin(); it != end; ++it) {
    top.emplace_back(*it, static_cast<float>(OrNothing(logits[static_cast<size_t>(*it)]) - log_sum_exp));
  }
  return top;
}

int32_t RankOf(std::span<const float> logits, int32_t token) {
  const auto at = static_cast<size_t>(token);
  const float logit = OrNothing(logits[at]);
  const auto before = [&](float other) { return OrNothing(other) > logit; };
  const auto equal = [&](float other) { return OrNothing(other) == logit; };
  const auto higher = std::ranges::count_if(logits, before), ties = std::ranges::count_if(logits.first(at), equal);
  return static_cast<int32_t>(1 + higher + ties);
}

}  // namespace quire::kernels
