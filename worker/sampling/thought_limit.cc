#include "worker/sampling/thought_limit.h"

#include <algorithm>

namespace quire {

namespace {

/// Returns the tokens that follow `open` in `generated`; nullopt if `open` does not occur after at most
/// kMostBeforeThoughts other tokens.
std::optional<std::span<const TokenId>> Behind(std::span<const TokenId> open, std::span<const TokenId> generated) {
  const auto beginning = generated.first(std::min(generated.size(), kMostBeforeThoughts + open.size()));
  const auto found = std::ranges::search(beginning, open);
  if (found.empty()) return std::nullopt;
  return generated.subspan(static_cast<size_t>(found.end() - beginning.begin()));
}

}  // namespace

std::optional<TokenId> TokenThatEndsThoughts(const ThoughtLimit& limit, std::span<const TokenId> generated) {
  if (limit.tokens < 0) return std::nullopt;
  const auto thoughts = limit.begun ? generated : Behind(limit.open, generated);
  const auto most = static_cast<size_t>(limit.tokens);
  if (!thoughts || thoughts->size() < most) return std::nullopt;
  const auto kept = thoughts->first(most);
  if (std::ranges::find(kept, limit.close.front()) != kept.end()) return std::nullopt;  // already closed by the model
  const size_t closing = thoughts->size() - most;
  return closing < limit.close.size() ? std::optional(limit.close[closing]) : std::nullopt;
}

}  // namespace quire
