#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_format.h"

namespace quire {

struct Tool;
struct ToolUse;

/// A piece of what an answer holds, in the order of the answer.
struct AnswerPart {
  enum Kind {
    kContent,    // text: words for whoever asked
    kReasoning,  // text: thoughts
    kCall,       // text: the name of the function that is called; its arguments follow
    kArguments,  // text: the next piece of the call's arguments, which are the text of a JSON object
    kBroken,     // the call is none after all; text: all of what it was written as
  };
  Kind kind = kContent;
  std::string text;
  int call = -1;  // which of the answer's calls, from 0

  bool operator==(const AnswerPart&) const = default;
};
using AnswerParts = std::vector<AnswerPart>;

/// Takes the text of an answer as it comes and says what it holds. What comes out, put together, does not depend on how
/// the text was cut. Malformed calls are content; of the text nothing but whitespace around calls and thoughts is lost.
/// Takes time in proportion to the text.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;

  virtual void Push(std::string_view text, AnswerParts& out) = 0;
  /// The end. cut: the answer was not at its end, so that a call may lack its own.
  virtual void Finish(bool cut, AnswerParts& out) = 0;
  /// Whether the text so far ends inside thoughts.
  virtual bool in_reasoning() const { return false; }
  /// Bytes of the text, and of what was made of it, that wait for more.
  virtual size_t held_bytes() const = 0;
};

/// All that the form of one answer depends on, decided before it begins.
struct AnswerShape {
  AnswerFormat format;
  ReasoningStart start = ReasoningStart::kNone;
  std::shared_ptr<const ToolUse> tools;  // that may be called; null: none

  /// The text holds words only.
  bool is_plain() const { return tools == nullptr && format.reasoning == ReasoningFormat::kNone; }
};

/// Null for a plain one.
std::unique_ptr<AnswerParser> MakeAnswerParser(const AnswerShape& shape);

}  // namespace quire
