#include "coordinator/api/openai/chat_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "coordinator/text/answers/tool.h"

namespace quire {

ChatChoice::ChatChoice(const AnswerShape& shape, bool include_reasoning)
    : parser_(MakeAnswerParser(shape)),
      include_reasoning_(include_reasoning),
      one_call_(shape.tools != nullptr && !shape.tools->parallel) {}

AnswerParts ChatChoice::OnText(std::string_view text, size_t most_words) {
  AnswerParts parts;
  most_words_ = most_words;
  was_thinking_ = false;
  if (parser_ == nullptr) {
    if (!text.empty()) parts.push_back({AnswerPart::kContent, std::string(text), -1});
    return parts;
  }
  const bool before = parser_->in_reasoning();
  parser_->Push(text, parts);
  was_thinking_ = before || parser_->in_reasoning();
  return Filtered(Told(std::move(parts)));
}

AnswerParts ChatChoice::OnEnd(bool cut) {
  AnswerParts parts;
  if (parser_ != nullptr) parser_->Finish(cut, parts);
  return Filtered(Told(std::move(parts)));
}

size_t ChatChoice::held_bytes() const {
  size_t bytes = parser_ == nullptr ? 0 : parser_->held_bytes();
  for (const AnswerPart& part : waiting_) bytes += part.text.size();
  return bytes;
}

AnswerParts ChatChoice::Told(AnswerParts parts) {
  AnswerParts told;
  std::ranges::move(parts, std::back_inserter(waiting_));
  size_t done = 0;
  for (; done < waiting_.size(); ++done) {
    AnswerPart& part = waiting_[done];
    const bool is_words = part.kind == AnswerPart::kContent || part.kind == AnswerPart::kBroken;
    const size_t room = is_words ? most_words_ - std::min(told_words_, most_words_) : SIZE_MAX;
    if (is_words) told_words_ += std::min(room, part.text.size());
    if (part.text.size() > room) {
      if (room > 0 || part.kind == AnswerPart::kBroken)
        told.push_back({part.kind, part.text.substr(0, room), part.call});
      part.text.erase(0, room);
      part.kind = AnswerPart::kContent;  // the broken part was sent already
      break;
    }
    told.push_back(std::move(part));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(done));
  return told;
}

AnswerParts ChatChoice::Filtered(AnswerParts parts) {
  std::erase_if(parts, [&](const AnswerPart& part) {
    return (part.kind == AnswerPart::kReasoning && !include_reasoning_) || (one_call_ && part.call > 0);
  });
  for (const AnswerPart& part : parts) called_ |= part.kind == AnswerPart::kCall;
  return parts;
}

std::string ToolCallId(ToolFormat format, std::string_view answer_id, int choice, int call) {
  const std::string id = fmt::format("{}{:02x}{:02x}", answer_id.substr(answer_id.find('-') + 1), choice, call);
  if (format != ToolFormat::kMistral) return "call_" + id;
  static constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  size_t number = std::hash<std::string>()(id);
  std::string letters;
  for (int i = 0; i < 9; ++i, number /= kLetters.size()) letters += kLetters[number % kLetters.size()];
  return letters;
}

}  // namespace quire
