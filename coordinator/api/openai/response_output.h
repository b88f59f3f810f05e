#pragma once

#include <string>
#include <vector>

#include "coordinator/api/requests/responses/response_tools.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// One item of the output of /v1/responses. Its JSON is built as text, so that each long text is escaped only once.
struct OutputItem {
  AnswerPart::Kind kind = AnswerPart::kContent;  // kReasoning or kCall also occur
  std::string id;
  std::string text;           // the item's text, escaped; for a call, its arguments
  std::string name, call_id;  // name (as the model sees it) and id of a call
  ResponseTool tool;          // the tool's name and kind as the client knows the tool
  bool seals = false;         // thoughts are also sent encoded (SealText), so that clients can send them back

  bool has_part() const { return kind != AnswerPart::kCall; }
  /// True when the text is streamed; false for calls of custom tools and of tool searches. These calls are sent when
  /// their input is complete.
  bool streams() const { return has_part() || tool.kind == ResponseTool::kFunction; }
  /// Returns the beginning of the names of events about the text ("response.output_text"); null: no such events exist.
  const char* EventName() const;
  /// Returns the item's only content part, with the text `said` (escaped).
  std::string Part(const std::string& said) const;
  /// Returns the item as JSON. `begun`: the item has only begun, so its text is left out.
  std::string ToJson(const char* status, bool begun = false) const;
  /// Returns the input of a custom tool's call, escaped.
  std::string CustomInput() const;
};

/// Returns the items as one chat message of the assistant, in JSON.
std::string AsChatMessage(const std::vector<OutputItem>& items);

std::string QuotedJson(const std::string& text);
/// Returns the text escaped as in a JSON string, without quotation marks.
std::string EscapedJson(const std::string& text);

}  // namespace quire
