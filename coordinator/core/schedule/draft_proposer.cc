#include "coordinator/core/schedule/draft_proposer.h"

#include <algorithm>
#include <span>

namespace quire {

namespace {

/// Tokens before the end of a sequence in which a match is searched. This bounds the time of one search.
constexpr size_t kMostSearched = size_t{1} << 16;

/// The number of tokens, at most `most`, that the tokens before `end` have in common with the end of `tokens`.
size_t CommonTokens(std::span<const TokenId> tokens, size_t end, size_t most) {
  size_t common = 0;
  while (common < std::min(most, end) && tokens[end - 1 - common] == tokens[tokens.size() - 1 - common]) ++common;
  return common;
}

}  // namespace

void RepeatProposer::Propose(const Request&, const Sequence& sequence, int most, std::vector<TokenId>& guess) {
  guess.clear();
  const std::span<const TokenId> all(sequence.tokens);
  const std::span<const TokenId> tokens = all.last(std::min(all.size(), kMostSearched));
  const auto max_match = static_cast<size_t>(options_.max_match);
  size_t best = 0, longest = static_cast<size_t>(options_.min_match) - 1;
  for (size_t end = tokens.size() - 1; end > longest && longest < max_match; --end) {
    const size_t common = CommonTokens(tokens, end, max_match);
    if (common <= longest) continue;
    best = end;
    longest = common;
  }
  if (best == 0) return;
  const std::span<const TokenId> follows = tokens.subspan(best);
  guess.assign(follows.begin(), follows.begin() + std::min<std::ptrdiff_t>(most, std::ssize(follows)));
}

}  // namespace quire
