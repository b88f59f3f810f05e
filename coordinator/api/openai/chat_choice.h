#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// Parses the text of one chat choice while it arrives, and stores only the parts that the client asked for. Does not
/// depend on the endpoint's format.
class ChatChoice {
 public:
  /// include_reasoning: thoughts are returned as well.
  ChatChoice(const AnswerShape& shape, bool include_reasoning);

  /// Returns the parts of the new text. Leaves out every call after the first if the request allows only one. Content
  /// beyond the choice's first `most_words` bytes, and all parts after that content, wait for a later call of OnText.
  AnswerParts OnText(std::string_view text, size_t most_words = SIZE_MAX);
  /// Returns the last parts. `cut`: the length limit ended the answer. Drops content that still waits, and all parts
  /// after that content.
  AnswerParts OnEnd(bool cut);

  /// True when a part of a tool call was returned.
  bool called() const { return called_; }
  /// True when the latest text contained thoughts.
  bool was_thinking() const { return was_thinking_; }
  /// Returns the bytes of text that this object holds back, because the kind of the text is not known yet or content
  /// must wait.
  size_t held_bytes() const;

 private:
  AnswerParts Filtered(AnswerParts parts);
  AnswerParts Told(AnswerParts parts);

  std::unique_ptr<AnswerParser> parser_;  // null: all text is content
  bool include_reasoning_, one_call_;
  bool called_ = false, was_thinking_ = false;
  AnswerParts waiting_;  // content beyond most_words_, and all parts after it
  size_t told_words_ = 0, most_words_ = SIZE_MAX;
};

/// Makes a tool call's id from the answer's unique id, the choice and the number of the call. Mistral's models accept
/// only ids of nine letters and digits.
std::string ToolCallId(ToolFormat format, std::string_view answer_id, int choice, int call);

}  // namespace quire
