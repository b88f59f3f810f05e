#pragma once

#include <string>
#include <vector>

#include "coordinator/api/requests/response_tools.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// One item of the output of /v1/responses. JSON is put together as text: what is long is escaped once, when it comes.
struct OutputItem {
  AnswerPart::Kind kind = AnswerPart::kContent;  // or kReasoning, or kCall
  std::string id;
  std::string text;           // escaped; of a call its arguments
  std::string name, call_id;  // of a call; the name that the model is shown
  ResponseTool tool;          // of a call: what its client knows
  bool seals = false;         // thoughts come in a form that clients send back, too

  bool has_part() const { return kind != AnswerPart::kCall; }
  /// Its text goes out as it comes. The text of a custom tool is known when all arguments are.
  bool streams() const { return has_part() || tool.kind == ResponseTool::kFunction; }
  /// Of the events about its text, before .delta and .done; null: there are none.
  const char* EventName() const;
  /// The one part of its content, saying this.
  std::string Part(const std::string& said) const;
  /// begun: with nothing in it yet.
  std::string ToJson(const char* status, bool begun = false) const;
  /// What a custom tool is given, escaped.
  std::string CustomInput() const;
};

/// The items as one message of a chat, as JSON.
std::string AsChatMessage(const std::vector<OutputItem>& items);

std::string QuotedJson(const std::string& text);
/// The text as it stands between a JSON string's quotation marks.
std::string EscapedJson(const std::string& text);

}  // namespace quire
