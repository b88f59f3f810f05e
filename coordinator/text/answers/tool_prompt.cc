#include "coordinator/text/answers/tool_prompt.h"

#include <fmt/format.h>

#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/text/answers/call_arguments.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

constexpr const char* kGenericAdvice =
    "\nSeveral calls may follow one another. The next message brings what each gave, between <tool_response> and "
    "</tool_response>. Where no function helps, answer in words.";

/// Returns a JSON value as Python writes it.
std::string PythonText(const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (!value.is_structured() || value.empty()) return DumpExactJson(value);
  std::string text;
  for (const auto& [key, member] : value.items()) {
    text += (text.empty() ? "" : ", ") + (value.is_object() ? JsonString(key) + ": " : "") + PythonText(member);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string PythonCallText(const OrderedJson& function) {
  const auto& arguments = function["arguments"].get_ref<const std::string&>();
  const OrderedJson object = ParseExactJson(ObjectOfArguments(arguments));
  std::string text;
  for (const auto& [key, value] : object.items()) text += (text.empty() ? "" : ", ") + key + "=" + PythonText(value);
  return function["name"].get<std::string>() + "(" + text + ")";
}

/// The texts before, between and after calls that are written as Python.
struct PythonCallForm {
  const char *begin, *between, *end;
};

std::string PythonCallsText(const PythonCallForm& form, const OrderedJson& calls) {
  std::string text;
  for (const OrderedJson& call : calls)
    text += (text.empty() ? form.begin : form.between) + PythonCallText(call["function"]);
  return text + form.end;
}

}  // namespace

std::optional<JsonCallForm> JsonCallFormOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kGeneric:
      return JsonCallForm{"", "<tool_call>\n", "arguments", "\n</tool_call>", "\n", "", kGenericAdvice};
    case ToolFormat::kHermes:
      return JsonCallForm{"", "<tool_call>\n", "arguments", "\n</tool_call>", "\n", "", ""};
    case ToolFormat::kLlama3Json:
      return JsonCallForm{"", "", "parameters", "", "; ", "", ""};
    case ToolFormat::kMistral:
      return JsonCallForm{"[TOOL_CALLS][", "", "arguments", "", ", ", "]", ""};
    case ToolFormat::kGranite:
      return JsonCallForm{"<|tool_call|>[", "", "arguments", "", ", ", "]", ""};
    case ToolFormat::kPhi4Mini:
      return JsonCallForm{"<|tool_call|>[", "", "arguments", "", ", ", "]<|/tool_call|>", ""};
    case ToolFormat::kNemotron:
      return JsonCallForm{"<TOOLCALL>[", "", "arguments", "", ", ", "]</TOOLCALL>", ""};
    case ToolFormat::kCommand3:
      return JsonCallForm{"<|START_ACTION|>[\n    ", "", "parameters", "", ",\n    ",
                          "\n]<|END_ACTION|>",       "", "tool_name"};
    case ToolFormat::kCommandR:
      return JsonCallForm{"Action: ```json\n[\n    ", "", "parameters", "", ",\n    ", "\n]\n```", "", "tool_name"};
    default:
      return std::nullopt;
  }
}

std::string ToolPrompt(const JsonCallForm& form, const OrderedJson& tools) {
  std::string text = "You may call functions. Each is described by a line of JSON:\n";
  for (const OrderedJson& tool : tools) text += DumpExactJson(tool) + "\n";
  text += fmt::format(
      "To call one, answer with its name and arguments, in this form and with nothing else:\n{}{}{{\"{}\": "
      "\"the function\", \"{}\": {{\"an argument\": \"its value\"}}}}{}{}",
      form.begin, form.open, form.name, form.arguments, form.close, form.end);
  return text + form.advice;
}

std::string CallsText(const JsonCallForm& form, const OrderedJson& calls) {
  std::string text = form.begin;
  for (const OrderedJson& call : calls) {
    const OrderedJson& function = call["function"];
    const auto& arguments = function["arguments"].get_ref<const std::string&>();
    if (text.size() > form.begin.size()) text += form.between;
    text += fmt::format("{}{{\"{}\": {}, \"{}\": {}}}{}", form.open, form.name,
                        JsonString(function["name"].get_ref<const std::string&>()), form.arguments,
                        ObjectOfArguments(arguments), form.close);
  }
  return text + form.end;
}

std::optional<std::string> CallsText(ToolFormat format, const OrderedJson& calls) {
  if (format == ToolFormat::kLfm2) return PythonCallsText({"<|tool_call_start|>[", ", ", "]<|tool_call_end|>"}, calls);
  if (format == ToolFormat::kOlmo3) return PythonCallsText({"<function_calls>\n", "\n", "\n</function_calls>"}, calls);
  const auto form = JsonCallFormOf(format);
  return form ? std::optional(CallsText(*form, calls)) : std::nullopt;
}

std::string ResultText(const std::string& name, const std::string& result) {
  return fmt::format("<tool_response>\n{}{}{}\n</tool_response>", name, name.empty() ? "" : ":\n", result);
}

}  // namespace quire
