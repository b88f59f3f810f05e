#include "coordinator/api/openai/response_output.h"

#include <fmt/format.h>

#include "comm/base/json.h"
#include "coordinator/api/requests/responses/sealed_text.h"

namespace quire {

namespace {

/// Returns the text of an escaped JSON string.
std::string Unescaped(const std::string& escaped) { return Json::parse('"' + escaped + '"').get<std::string>(); }

/// Returns the arguments as the text of a JSON object; "{}" when they are no JSON object.
std::string ArgumentsObject(const std::string& escaped) {
  const Json parsed = Json::parse(Unescaped(escaped), nullptr, false);
  return parsed.is_object() ? DumpJson(parsed) : "{}";
}

std::string CallJson(const OutputItem& item, const std::string& head, bool begun) {
  const ResponseTool& tool = item.tool;
  const std::string call = fmt::format(R"("call_id":"{}",)", item.call_id);
  if (tool.kind == ResponseTool::kSearch) {
    return head + R"("type":"tool_search_call",)" + call + R"("execution":"client","arguments":)" +
           (begun ? "{}" : ArgumentsObject(item.text)) + "}";
  }
  const std::string space =
      tool.name_space.empty() ? "" : fmt::format(R"("namespace":{},)", QuotedJson(tool.name_space));
  const std::string named = call + space + fmt::format(R"("name":{},)", QuotedJson(tool.name));
  if (tool.kind == ResponseTool::kCustom)
    return head + R"("type":"custom_tool_call",)" + named + R"("input":")" + (begun ? "" : item.CustomInput()) + "\"}";
  return head + R"("type":"function_call",)" + named + R"("arguments":")" + (begun ? "" : item.text) + "\"}";
}

}  // namespace

std::string QuotedJson(const std::string& text) { return DumpJson(text); }

std::string EscapedJson(const std::string& text) {
  const std::string quoted = QuotedJson(text);
  return quoted.substr(1, quoted.size() - 2);
}

const char* OutputItem::EventName() const {
  if (kind == AnswerPart::kReasoning) return "response.reasoning_text";
  if (kind != AnswerPart::kCall) return "response.output_text";
  switch (tool.kind) {
    case ResponseTool::kFunction:
      return "response.function_call_arguments";
    case ResponseTool::kCustom:
      return "response.custom_tool_call_input";
    case ResponseTool::kSearch:
      break;
  }
  return nullptr;
}

std::string OutputItem::Part(const std::string& said) const {
  if (kind == AnswerPart::kReasoning) return R"({"type":"reasoning_text","text":")" + said + R"("})";
  return R"({"type":"output_text","annotations":[],"logprobs":[],"text":")" + said + R"("})";
}

std::string OutputItem::ToJson(const char* status, bool begun) const {
  const std::string head = fmt::format(R"({{"id":"{}","status":"{}",)", id, status);
  if (kind == AnswerPart::kCall) return CallJson(*this, head, begun);
  const std::string content = R"("content":[)" + (begun ? "" : Part(text)) + "]";
  if (kind == AnswerPart::kReasoning) {
    const std::string sealed = seals && !begun ? R"(,"encrypted_content":")" + SealText(text) + '"' : "";
    return head + R"("type":"reasoning","summary":[],)" + content + sealed + "}";
  }
  return head + R"("type":"message","role":"assistant",)" + content + "}";
}

std::string OutputItem::CustomInput() const { return EscapedJson(CustomInputOf(Unescaped(text))); }

std::string AsChatMessage(const std::vector<OutputItem>& items) {
  std::string content, thoughts, calls;
  for (const OutputItem& item : items) {
    if (item.kind == AnswerPart::kContent) content += item.text;
    if (item.kind == AnswerPart::kReasoning) thoughts += item.text;
    if (item.kind != AnswerPart::kCall) continue;
    calls += fmt::format(R"({}{{"id":"{}","type":"function","function":{{"name":{},"arguments":"{}"}}}})",
                         calls.empty() ? "" : ",", item.call_id, QuotedJson(item.name), item.text);
  }
  std::string message = R"({"role":"assistant","content":")" + content + '"';
  if (!thoughts.empty()) message += R"(,"reasoning_content":")" + thoughts + '"';
  if (!calls.empty()) message += R"(,"tool_calls":[)" + calls + "]";
  return message + "}";
}

}  // namespace quire
