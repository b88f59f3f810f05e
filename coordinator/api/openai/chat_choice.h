#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// One choice of a chat while its text comes: what it holds for whoever asked. Independent of the endpoint.
class ChatChoice {
 public:
  /// include_reasoning: thoughts are handed out, too.
  ChatChoice(const AnswerShape& shape, bool include_reasoning);

  /// What the text brings. Calls beyond the first are left out when the request takes only one. most_words: bytes of
  /// all words so far that may be told; those behind wait, and what follows them, for a later text.
  AnswerParts OnText(std::string_view text, size_t most_words = SIZE_MAX);
  /// What is left at the end. cut: by its length. Words beyond the last text's bound are dropped, and what follows.
  AnswerParts OnEnd(bool cut);

  /// Some function is called.
  bool called() const { return called_; }
  /// Whether the latest text was about thoughts, or began among them.
  bool was_thinking() const { return was_thinking_; }
  /// Bytes of the text that wait until it is known what they are.
  size_t held_bytes() const;

 private:
  AnswerParts Filtered(AnswerParts parts);
  AnswerParts Told(AnswerParts parts);

  std::unique_ptr<AnswerParser> parser_;  // null: the text is words
  bool include_reasoning_, one_call_;
  bool called_ = false, was_thinking_ = false;
  AnswerParts waiting_;  // words that may not be told yet, and what is behind
  size_t told_words_ = 0, most_words_ = SIZE_MAX;
};

/// An id for a call of an answer: which of its choices', and which of its calls. answer_id: of the answer, as clients
/// see it, which is like no other. Models of Mistral's take nine letters and digits only.
std::string ToolCallId(ToolFormat format, std::string_view answer_id, int choice, int call);

}  // namespace quire
