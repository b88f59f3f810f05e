#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/check.h"

namespace quire::kernels {

namespace {

/// Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products and a Weyl sequence on the key.
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

struct Ranked {
  double weight;  // exp((logit - max) / temperature)
  int32_t token;
};

bool Before(const Ranked& a, const Ranked& b) { return a.weight != b.weight ? a.weight > b.weight : a.token < b.token; }

/// Sorts ever larger heads of `ranked` until they hold `enough` mass; returns how many leading entries are sorted.
size_t SortHead(std::vector<Ranked>& ranked, double enough) {
  for (size_t head = 64, sorted = 0;; head *= 8) {
    head = std::min(head, ranked.size());
    std::partial_sort(ranked.begin() + static_cast<ptrdiff_t>(sorted), ranked.begin() + static_cast<ptrdiff_t>(head),
                      ranked.end(), Before);
    sorted = head;
    double mass = 0;
    for (size_t i = 0; i < head; ++i) mass += ranked[i].weight;
    if (mass >= enough || head == ranked.size()) return head;
  }
}

/// Cuts `ranked` down to the smallest head whose mass reaches top_p of the whole (at least one entry).
void KeepTopP(std::vector<Ranked>& ranked, double top_p) {
  double total = 0;
  for (const Ranked& r : ranked) total += r.weight;
  const size_t sorted = SortHead(ranked, top_p * total);
  double mass = 0;
  for (size_t i = 0; i < sorted; ++i) {
    mass += ranked[i].weight;
    if (mass >= top_p * total) {
      ranked.resize(i + 1);
      return;
    }
  }
}

}  // namespace

Candidate ArgMax(std::span<const float> logits) {
  QUIRE_KERNEL_CHECK(!logits.empty());
  Candidate best{logits[0], 0};
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > best.logit) best = {logits[i], static_cast<int32_t>(i)};
  }
  return best;
}

double LogSumExp(std::span<const float> logits) {
  const double max = ArgMax(logits).logit;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return max + std::log(sum);
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
  if (params.temperature <= 0.0f || params.top_k == 1) return best.token;

  std::vector<Ranked> ranked(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    ranked[i] = {std::exp((static_cast<double>(logits[i]) - best.logit) / params.temperature), static_cast<int32_t>(i)};
  }
  const bool reorders = (params.top_k > 0 && static_cast<size_t>(params.top_k) < ranked.size()) || params.top_p < 1.0f;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ranked.size()) {
    std::nth_element(ranked.begin(), ranked.begin() + params.top_k, ranked.end(), Before);
    ranked.resize(static_cast<size_t>(params.top_k));
  }
  if (params.min_p > 0.0f) {  // the best candidate weighs 1
    std::erase_if(ranked, [&](const Ranked& r) { return r.weight < params.min_p; });
  }
  if (params.top_p < 1.0f) KeepTopP(ranked, params.top_p);

  // The walk goes in token order, so that it does not depend on how the selections above left the entries.
  if (reorders) {
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.token < b.token; });
  }
  double total = 0;
  for (const Ranked& r : ranked) total += r.weight;
  double left = UniformFromKey(key) * total;
  for (const Ranked& r : ranked) {
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
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<std::pair<int32_t, float>> top;
  for (auto it = order.begin(); it != end; ++it) {
    top.emplace_back(*it, static_cast<float>(logits[static_cast<size_t>(*it)] - log_sum_exp));
  }
  return top;
}

}  // namespace quire::kernels
