#include "coordinator/core/schedule/draft_proposer.h"

#include <algorithm>
#include <span>

namespace quire {

namespace {

/// The most tokens at a sequence's end among which InText searches for a match. This bounds the time of one search.
constexpr size_t kMostSearched = size_t{1} << 16;
/// The most tokens before a position of a prediction that are compared with the end of the generated tokens. In code,
/// single lines often repeat, but several lines in a row seldom do.
constexpr size_t kMostInPrediction = 64;
/// The most token comparisons in one search of a prediction or of a text. Positions with long common parts cost more.
constexpr size_t kMostComparedInPrediction = kMostSearched, kMostComparedInText = 2 * kMostSearched;

}  // namespace

bool RepeatProposer::MayGuess(const Request& request) const {
  const bool predicted = options_.from_predictions && !request.prediction.empty();
  return options_.from_text || options_.from_answers || predicted;
}

/// Returns the position in the text whose preceding tokens have the longest part in common with the text's end; a part
/// counts as at most max_match tokens. Returns the latest of several such positions. Returns an empty part if none has
/// min_match tokens.
CommonPart RepeatProposer::InText(std::span<const TokenId> text) const {
  const std::span<const TokenId> tokens = text.last(std::min(text.size(), kMostSearched));
  const auto max_match = static_cast<size_t>(options_.max_match);
  size_t left = kMostComparedInText;
  size_t best = 0, longest = static_cast<size_t>(options_.min_match) - 1;
  for (size_t end = tokens.size() - 1; end > longest && longest < max_match && left > 0; --end) {
    const size_t common = CommonTokens(tokens, end, tokens, max_match);
    left -= std::min(left, common + 1);
    if (common <= longest) continue;
    best = end;
    longest = common;
  }
  if (best == 0) return {};
  return {longest, tokens.subspan(best)};
}

/// Returns the position in the prediction whose preceding tokens have the longest part in common with the end of the
/// generated tokens. Among several such positions, returns the nearest to the number of generated tokens, where the
/// text would continue if the answer equals the prediction. Returns the beginning of the prediction while no token is
/// generated, and an empty part if no part has min_match tokens. The number of comparisons is bounded, because each
/// step searches for each sequence; the nearest positions are searched first.
CommonPart RepeatProposer::InPrediction(std::span<const TokenId> prediction, std::span<const TokenId> generated) const {
  const size_t unchanged = generated.size();
  const auto part = [&](size_t place, size_t common) {
    return CommonPart{std::min(common, static_cast<size_t>(options_.max_match)), prediction.subspan(place)};
  };
  if (unchanged < prediction.size()) {
    const size_t most = std::min(unchanged, kMostInPrediction);
    if (CommonTokens(prediction, unchanged, generated, most) == most) return part(unchanged, SIZE_MAX);
  }
  size_t best = 0, longest = static_cast<size_t>(options_.min_match) - 1, left = kMostComparedInPrediction;
  const auto look = [&](size_t end) {
    if (end < 1 || end >= prediction.size()) return;
    const size_t common = CommonTokens(prediction, end, generated, kMostInPrediction);
    left -= std::min(left, common + 1);
    if (common > longest) best = end, longest = common;
  };
  const size_t farthest = std::max(unchanged, prediction.size());
  size_t away = unchanged < prediction.size() ? 0 : unchanged + 1 - prediction.size();
  for (; away < farthest && left > 0 && longest < kMostInPrediction; ++away) {
    if (away <= unchanged) look(unchanged - away);
    if (away > 0) look(unchanged + away);
  }
  return best == 0 ? CommonPart{} : part(best, longest);
}

DraftSource RepeatProposer::Propose(const Request& request, const Sequence& sequence, int most,
                                    std::vector<TokenId>& guess) {
  const std::span<const TokenId> text(sequence.tokens);
  CommonPart best;
  auto source = DraftSource::kText;
  const auto consider = [&](CommonPart part, DraftSource from) {
    if (part.length > best.length) best = part, source = from;
  };
  if (options_.from_predictions && !request.prediction.empty()) {
    const auto generated = text.subspan(static_cast<size_t>(sequence.num_prompt_tokens));
    consider(InPrediction(request.prediction, generated), DraftSource::kPrediction);
  }
  const auto min_match = static_cast<size_t>(options_.min_match), max_match = static_cast<size_t>(options_.max_match);
  if (options_.from_text && best.length < max_match) consider(InText(text), DraftSource::kText);
  if (options_.from_answers && answers_ != nullptr && best.length < max_match)
    consider(answers_->Find(request, text, min_match, max_match), DraftSource::kAnswers);
  const auto count = std::min(static_cast<size_t>(most), best.follows.size());
  guess.assign(best.follows.begin(), best.follows.begin() + static_cast<std::ptrdiff_t>(count));
  return source;
}

}  // namespace quire
