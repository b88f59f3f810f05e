#include "coordinator/text/answers/call_writer.h"

#include <utility>

#include "coordinator/text/answers/python_call.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/tool_prompt.h"

namespace quire {

namespace {

/// The texts that a format puts around and between the calls of an answer.
struct Writing {
  std::string begin, between, end;
};

Writing WritingOf(ToolFormat format, bool mistral_names) {
  switch (format) {
    case ToolFormat::kDeepSeekV3:
      return {"<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeekV31:
      return {"<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>"};
    case ToolFormat::kKimiK2:
      return {"<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"};
    case ToolFormat::kGlm47:
      return {};
    case ToolFormat::kGlm45:
    case ToolFormat::kQwen3Coder:
      return {"", "\n", ""};
    case ToolFormat::kMiniMaxM2:
      return {"<minimax:tool_call>\n", "\n", "\n</minimax:tool_call>"};
    case ToolFormat::kDeepSeekV32:
      return {"<｜DSML｜function_calls>\n", "\n", "\n</｜DSML｜function_calls>"};
    case ToolFormat::kGemma4:
      return {"<|tool_call>call:", "<tool_call|><|tool_call>call:", "<tool_call|>"};
    case ToolFormat::kLfm2:
      return {"<|tool_call_start|>[", ", ", "]<|tool_call_end|>"};
    case ToolFormat::kOlmo3:
      return {"<function_calls>\n", "\n", "\n</function_calls>"};
    case ToolFormat::kPythonic:
      return {"[", ", ", "]"};
    case ToolFormat::kMistral:
      if (mistral_names) return {};
      [[fallthrough]];
    default: {
      const auto form = JsonCallFormOf(format);
      return form ? Writing{form->begin, form->between, form->end} : Writing{};
    }
  }
}

}  // namespace

CallWriter::CallWriter(const CallConstraint& constraint)
    : constraint_(constraint),
      build_(constraint.control_tokens),
      format_(constraint.shape.format.tools),
      mistral_names_(constraint.control_tokens.contains("[ARGS]")) {}

OrderedJson CallWriter::Call(size_t tool) const {
  const std::string& name = constraint_.shape.tools->tools[tool].name;
  const OrderedJson& schema = constraint_.schemas[tool];
  const OrderedJson arguments = ValueOf(schema, "json");
  switch (format_) {
    case ToolFormat::kDeepSeekV3:
      return build_.Row({{"<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n", arguments},
                         {"\n```<｜tool▁call▁end｜>", nullptr}});
    case ToolFormat::kDeepSeekV31:
      return build_.Row(
          {{"<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>", arguments}, {"<｜tool▁call▁end｜>", nullptr}});
    case ToolFormat::kKimiK2:
      return build_.Row({{"<|tool_call_begin|>functions." + name + ":", RegexOf("[0-9]{1,3}")},
                         {"<|tool_call_argument_begin|>", arguments},
                         {"<|tool_call_end|>", nullptr}});
    case ToolFormat::kGlm47:
      return build_.Row({{"<tool_call>" + name, ValueOf(schema, "glm_xml")}, {"</tool_call>", nullptr}});
    case ToolFormat::kGlm45:
      return build_.Row({{"<tool_call>" + name + "\n", ValueOf(schema, "glm_xml")}, {"\n</tool_call>", nullptr}});
    case ToolFormat::kQwen3Coder:
      return build_.Row({{"<tool_call>\n<function=" + name + ">\n", ValueOf(schema, "qwen_xml")},
                         {"\n</function>\n</tool_call>", nullptr}});
    case ToolFormat::kMiniMaxM2:
      return build_.Row(
          {{"<invoke name=\"" + name + "\">\n", ValueOf(schema, "minimax_xml")}, {"\n</invoke>", nullptr}});
    case ToolFormat::kDeepSeekV32:
      return build_.Row({{"<｜DSML｜invoke name=\"" + name + "\">\n", ValueOf(schema, "deepseek_xml")},
                         {"\n</｜DSML｜invoke>", nullptr}});
    case ToolFormat::kPythonic:
    case ToolFormat::kLfm2:
    case ToolFormat::kOlmo3:
      return PythonCall(build_, name, schema);
    case ToolFormat::kGemma4:
      return GemmaCall(build_, name, schema);
    case ToolFormat::kHarmony:
      return HarmonyCall(name, arguments);
    case ToolFormat::kMistral:
      if (mistral_names_) return build_.Row({{"[TOOL_CALLS]" + name + "[ARGS]", arguments}});
      [[fallthrough]];
    default: {
      const JsonCallForm form = *JsonCallFormOf(format_);
      // Allows a member before the name: Llama 3.1 sometimes writes "type", and Command R7B numbers its calls.
      OrderedJson type;
      if (format_ == ToolFormat::kCommand3)
        type = OptionalOf(build_.Row({{"\"tool_call_id\": \"", RegexOf("[0-9]{1,3}")}, {"\", ", nullptr}}));
      if (format_ == ToolFormat::kLlama3Json) type = OptionalOf(build_.Row({{"\"type\": \"function\", ", nullptr}}));
      return build_.Row({{form.open + "{", type},
                         {"\"" + form.name + "\": \"" + name + "\", \"" + form.arguments + "\": ", arguments},
                         {"}" + form.close, nullptr}});
    }
  }
}

/// Returns the format of a call of gpt-oss. The recipient may be written before or after the channel.
OrderedJson CallWriter::HarmonyCall(const std::string& name, const OrderedJson& arguments) const {
  const std::string to = " to=functions." + name;
  std::vector<OrderedJson> heads, types;
  for (const std::string& head : {"<|channel|>commentary" + to, to + "<|channel|>commentary"})
    heads.push_back(build_.Row({{head, nullptr}}));
  for (const char* type : {" <|constrain|>json", "<|constrain|>json", " json"})
    types.push_back(build_.Row({{type, nullptr}}));
  return build_.Row({{"", AnyOf(heads)}, {"", OptionalOf(AnyOf(types))}, {"<|message|>", arguments}});
}

OrderedJson CallWriter::Calls(bool several) const {
  const ToolUse& use = *constraint_.shape.tools;
  std::vector<OrderedJson> calls;
  for (size_t i = 0; i < use.tools.size(); ++i) {
    if (use.choice.mode != ToolChoice::kNamed || use.choice.name == use.tools[i].name) calls.push_back(Call(i));
  }
  const OrderedJson call = AnyOf(std::move(calls));
  const Writing writing = WritingOf(format_, mistral_names_);
  const OrderedJson more = several ? StarOf(build_.Row({{writing.between, call}})) : OrderedJson();
  return build_.Row({{writing.begin, call}, {"", more}, {writing.end, nullptr}});
}

OrderedJson CallWriter::Calls() const {
  const ToolUse& use = *constraint_.shape.tools;
  return Calls(use.parallel && use.choice.mode != ToolChoice::kNamed && format_ != ToolFormat::kHarmony);
}

std::vector<std::string> CallWriter::Names() const {
  std::vector<std::string> names;
  for (const Tool& tool : constraint_.shape.tools->tools) names.push_back(tool.name);
  return names;
}

bool CallWriter::closes() const { return !WritingOf(format_, mistral_names_).end.empty(); }

}  // namespace quire
