#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/wire/step_plan.h"

namespace quire::sim {

inline constexpr int kVocab = 48;

/// Mixes two numbers (SplitMix64), so that similar inputs give unrelated results.
inline uint64_t Mix(uint64_t a, uint64_t b = 0) {
  uint64_t z = a + 0x9e3779b97f4a7c15ull * (b + 1);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

/// The content of one position of the KV cache: a hash of all tokens up to this position, of the adapter, and of the
/// cache salt, which is in the seed's upper half. So the checks also notice a block that adapters or salts wrongly
/// share.
using KvValue = uint64_t;
inline KvValue FirstKv(uint64_t seed, int adapter) {
  return Mix(seed >> 32, 77 + 1000 * static_cast<uint64_t>(adapter));
}
inline KvValue NextKv(KvValue before, TokenId token) { return Mix(before, static_cast<uint64_t>(token)); }

/// Returns word `index` of a sequence's state after a context. Every word is different, so that a partly wrong state is
/// noticed.
inline KvValue StateWord(KvValue context, size_t index) { return Mix(context, 7000 + index); }

/// Returns the token sampled after a context. As with the real sampler, the token depends on seed, choice and position.
inline TokenId Draw(KvValue context, const SamplingSpec& sampling, size_t position) {
  const uint64_t key = Mix(sampling.seed & 0xffffffff, sampling.choice * 1000003ull + position);
  return static_cast<TokenId>(Mix(context, key) % kVocab);
}

/// Returns the log-probability of a token after a context. It is not normalised, because only order and sums matter.
inline float Logprob(KvValue context, TokenId token) {
  const uint64_t bits = Mix(context, 5000 + static_cast<uint64_t>(token)) >> 40;
  return -static_cast<float>(bits) / static_cast<float>(1 << 20);  // 0 to -16, 24 bits
}

/// Returns the last hidden state after a context, a vector of one number. Sums of such numbers are exact.
inline float Activation(KvValue context) {
  return static_cast<float>(Mix(context, 9000) >> 44) / static_cast<float>(1 << 10);
}

inline std::vector<std::pair<TokenId, float>> BestTokens(KvValue context, int count) {
  std::vector<std::pair<TokenId, float>> all;
  for (TokenId token = 0; token < kVocab; ++token) all.emplace_back(token, Logprob(context, token));
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& entry) { return entry.second; });
  all.resize(static_cast<size_t>(std::min(count, kVocab)));
  return all;
}

/// Returns a token's rank among all tokens after a context; 1: the likeliest.
inline int32_t RankOf(KvValue context, TokenId token) {
  const auto all = BestTokens(context, kVocab);
  return static_cast<int32_t>(std::ranges::find(all, token, &std::pair<TokenId, float>::first) - all.begin()) + 1;
}

}  // namespace quire::sim
