#pragma once

#include <random>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Returns random tokens. The same seed gives the same tokens on every machine.
inline std::vector<TokenId> RandomPrompt(uint64_t seed, int num_tokens, int64_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> prompt;
  for (int i = 0; i < num_tokens; ++i)
    prompt.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(vocab_size)));
  return prompt;
}

}  // namespace quire
