#include "coordinator/api/openai/prompt_reporter.h"

#include <limits>

#include "coordinator/text/utf8.h"

namespace quire {

void PromptReporter::Add(ReportedToken token, Part& part) {
  std::string text = detokenizer_.Push(token.token);
  if (++num_added_ == num_tokens_) text += detokenizer_.Finish();
  if (num_characters_ == 0 && !text.empty()) DropFront(tokenizer_, text, text);  // as Decode does
  token.text_offset = num_characters_;
  num_characters_ += NumCharacters(text);
  part.text += text;
  part.tokens.push_back(std::move(token));
}

PromptReporter::Part PromptReporter::First(const std::vector<TokenId>& prompt) {
  Part part;
  num_tokens_ = prompt.size();
  Add({prompt.front(), std::numeric_limits<float>::quiet_NaN(), {}, 0}, part);
  return part;
}

std::vector<PromptReporter::Part> PromptReporter::Next(const PromptScores& scores, const std::vector<TokenId>& prompt) {
  std::vector<Part> parts;
  const auto width = static_cast<size_t>(scores.num_top);
  for (size_t i = 0; i < scores.count(); ++i) {
    if (i % kMostTokens == 0) parts.emplace_back();
    const auto begin = scores.top.begin() + static_cast<ptrdiff_t>(i * width);
    Add({prompt[static_cast<size_t>(scores.start) + i + 1],
         scores.logprobs[i],
         {begin, begin + static_cast<ptrdiff_t>(width)},
         0,
         scores.ranks[i]},
        parts.back());
  }
  return parts;
}

}  // namespace quire
