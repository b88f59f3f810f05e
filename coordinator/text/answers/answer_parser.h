#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_format.h"

namespace quire {

struct Tool;
struct ToolUse;

/// A part of an answer. Parts come in the order of the answer.
struct AnswerPart {
  enum Kind {
    kContent,    // text: words for the client
    kReasoning,  // text: thoughts
    kCall,       // text: the name of the called function; arguments follow
    kArguments,  // text: the next piece of the arguments, which together form the text of a JSON object
    kBroken,     // the call is invalid after all; text: all text written for the call
  };
  Kind kind = kContent;
  std::string text;
  int call = -1;  // index of the call in the answer, from 0

  bool operator==(const AnswerPart&) const = default;
};
using AnswerParts = std::vector<AnswerPart>;

/// Splits the text of an answer into parts while it arrives. The parts, joined, do not depend on how the text was
/// divided into pieces. Malformed calls become content. Apart from marks, only whitespace around calls and thoughts is
/// dropped. The time is proportional to the length of the text.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;

  virtual void Push(std::string_view text, AnswerParts& out) = 0;
  /// Ends the answer. cut: the length limit ended it, so its last call may be incomplete.
  virtual void Finish(bool cut, AnswerParts& out) = 0;
  /// True when the text parsed until now ends inside thoughts.
  virtual bool in_reasoning() const { return false; }
  /// True when the text parsed until now ends in a call, in a mark around calls, or in text that may become one of
  /// them.
  virtual bool in_attempt() const { return false; }
  /// Returns the bytes that the parser holds back until more text arrives, including text that it has converted.
  virtual size_t held_bytes() const = 0;
};

/// The settings that decide an answer's format, known before the answer begins.
struct AnswerShape {
  AnswerFormat format;
  ReasoningStart start = ReasoningStart::kNone;
  std::shared_ptr<const ToolUse> tools;  // tools that may be called; null: none

  /// True when the text has neither calls nor thoughts, so that no parser is needed.
  bool is_plain() const { return tools == nullptr && format.reasoning == ReasoningFormat::kNone; }
};

/// Returns a parser for this shape; null for a plain shape.
std::unique_ptr<AnswerParser> MakeAnswerParser(const AnswerShape& shape);

}  // namespace quire
