#include "worker/cpu/stage_tokens.h"

#include <span>

#include "comm/base/error.h"

namespace quire {

void StageTokens::Give(StageLink& link, const std::vector<SampledToken>& tokens, size_t most) {
  handed_.assign(1 + 2 * most, 0);
  handed_[0] = static_cast<int32_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    handed_[1 + 2 * i] = static_cast<int32_t>(tokens[i].slot);
    handed_[2 + 2 * i] = tokens[i].token;
  }
  for (int stage = 0; stage < link.stage(); ++stage) link.Send(stage, std::as_bytes(std::span(handed_)));
}

std::vector<SampledToken> StageTokens::Take(StageLink& link, size_t most) {
  handed_.resize(1 + 2 * most);
  link.Receive(link.num_stages() - 1, std::as_writable_bytes(std::span(handed_)));
  const auto count = static_cast<size_t>(handed_[0]);
  QUIRE_CHECK(2 * count < handed_.size(), "{} tokens for {} rows", count, handed_.size() / 2);
  std::vector<SampledToken> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back({static_cast<SlotId>(handed_[1 + 2 * i]), handed_[2 + 2 * i], 0, {}});
  return tokens;
}

}  // namespace quire
