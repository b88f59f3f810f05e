#include "coordinator/text/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/encode_bounds.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

using pre_tokenize::Split;

constexpr size_t kMaxPatterns = 32;
constexpr size_t kMaxPreTokenizers = 64;

/// A match, or the text between two matches.
struct Span {
  size_t begin, end;
  bool is_match;
};

std::vector<Span> PartsOf(std::string_view text, const std::vector<Splitter::Match>& matches, bool invert) {
  std::vector<Span> parts;
  size_t done = 0;
  for (const Splitter::Match& match : matches) {
    if (match.begin > done) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), invert});
  return parts;
}

/// Joins parts as `behavior` says. With kContiguous, adjacent matches form one part. With kMergedWithPrevious a match
/// joins the part before it, with kMergedWithNext the part after it, unless that part is a match, too.
void MergeMatches(std::vector<Span>& parts, Split::Behavior behavior) {
  const bool backwards = behavior == Split::Behavior::kMergedWithNext;
  if (backwards) std::ranges::reverse(parts);
  std::vector<Span> merged;
  bool after_match = false;
  for (const Span& part : parts) {
    const bool joins =
        behavior == Split::Behavior::kContiguous ? part.is_match == after_match : part.is_match && !after_match;
    if (joins && !merged.empty()) {
      merged.back().begin = std::min(merged.back().begin, part.begin);
      merged.back().end = std::max(merged.back().end, part.end);
    } else {
      merged.push_back(part);
    }
    after_match = part.is_match;
  }
  if (backwards) std::ranges::reverse(merged);
  parts.swap(merged);
}

void SplitPiece(std::string_view piece, const Split& split, const Splitter& splitter, SplitBudget& budget,
                std::vector<std::string_view>& out) {
  std::vector<Splitter::Match> matches;
  splitter.Find(piece, matches, budget);
  std::vector<Span> parts = PartsOf(piece, matches, split.invert);
  const bool removes = split.behavior == Split::Behavior::kRemoved;
  if (!removes && split.behavior != Split::Behavior::kIsolated) MergeMatches(parts, split.behavior);
  for (const Span& part : parts) {
    if (!removes || !part.is_match) out.push_back(piece.substr(part.begin, part.end - part.begin));
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  const auto patterns = static_cast<size_t>(
      std::ranges::count_if(steps, [](const PreTokenizerStep& step) { return std::holds_alternative<Split>(step); }));
  if (patterns > kMaxPatterns)
    Fail("tokenizer: {} patterns that split text, at most {} are allowed", patterns, kMaxPatterns);
  if (steps.size() > kMaxPreTokenizers)
    Fail("tokenizer: {} pre-tokenizers, at most {} are allowed", steps.size(), kMaxPreTokenizers);
  size_t number = 0;
  for (const PreTokenizerStep& how : steps) {
    Step& step = steps_.emplace_back(Step{how, std::nullopt});
    writes_alphabet_ = writes_alphabet_ || std::holds_alternative<pre_tokenize::Alphabet>(how);
    const auto* split = std::get_if<Split>(&how);
    if (split == nullptr) continue;
    ++number;
    try {
      step.splitter.emplace(split->pattern);
    } catch (const Error& error) {
      Fail("tokenizer: pattern {} of {}, \"{}\": {}", number, patterns, ValidUtf8(split->pattern.substr(0, 60)),
           error.what());
    }
    keeps_all_ = keeps_all_ && split->behavior != Split::Behavior::kRemoved;
    is_linear_ = is_linear_ && step.splitter->is_linear();
  }
}

void PreTokenizer::Take(const Step& step, std::string_view piece, bool is_first, SplitBudget& budget, Pieces& out) {
  if (const auto* split = std::get_if<Split>(&step.how)) {
    SplitPiece(piece, *split, *step.splitter, budget, out.all);
  } else if (const auto* marks = std::get_if<pre_tokenize::Marks>(&step.how)) {
    using Front = pre_tokenize::Marks::Front;
    const bool in_front = marks->front == Front::kEvery || (marks->front == Front::kFirst && is_first);
    const std::string& marked = out.storage.emplace_back(WriteMarks(piece, in_front));
    marks->split ? CutAtMarks(marked, true, out.all) : out.all.push_back(marked);
  } else if (std::holds_alternative<pre_tokenize::Alphabet>(step.how)) {
    out.all.push_back(out.storage.emplace_back(BytesToAlphabet(piece)));
  } else {
    out.all.push_back(piece.starts_with(' ') ? piece : out.storage.emplace_back(std::string(" ").append(piece)));
  }
}

PreTokenizer::Pieces PreTokenizer::Cut(std::string_view text, bool is_first, const std::stop_token& stop,
                                       SplitBudget& budget) const {
  Pieces pieces;
  if (text.empty()) return pieces;
  pieces.all.push_back(text);
  std::vector<std::string_view> before;
  for (const Step& step : steps_) {
    if (pieces.all.empty()) return pieces;
    before.clear();
    before.swap(pieces.all);
    for (size_t i = 0; i < before.size(); ++i) {
      CheckStop(stop);
      Take(step, before[i], is_first && i == 0, budget, pieces);
    }
    const bool begins_as_before = !pieces.all.empty() && pieces.all[0].data() == before[0].data();
    if (step.splitter && !begins_as_before) is_first = false;  // the first piece was removed
  }
  if (!writes_alphabet_) return pieces;
  for (std::string_view& piece : pieces.all) piece = pieces.storage.emplace_back(AlphabetToBytes(piece).value_or(""));
  return pieces;
}

}  // namespace quire
