#include "coordinator/text/answers/answer_format.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

template <class Format>
using Name = std::pair<const char*, Format>;

constexpr Name<ToolFormat> kToolNames[] = {
    {"none", ToolFormat::kNone},
    {"generic", ToolFormat::kGeneric},
    {"hermes", ToolFormat::kHermes},
    {"llama3_json", ToolFormat::kLlama3Json},
    {"llama4_json", ToolFormat::kLlama3Json},
    {"pythonic", ToolFormat::kPythonic},
    {"llama4_pythonic", ToolFormat::kPythonic},
    {"mistral", ToolFormat::kMistral},
    {"deepseek_v3", ToolFormat::kDeepSeekV3},
    {"deepseek_v31", ToolFormat::kDeepSeekV31},
    {"openai", ToolFormat::kHarmony},
    {"glm45", ToolFormat::kGlm45},
    {"granite", ToolFormat::kGranite},
    {"qwen3_coder", ToolFormat::kQwen3Coder},
    {"kimi_k2", ToolFormat::kKimiK2},
    {"minimax_m2", ToolFormat::kMiniMaxM2},
    {"deepseek_v32", ToolFormat::kDeepSeekV32},
    {"lfm2", ToolFormat::kLfm2},
    {"olmo3", ToolFormat::kOlmo3},
    {"gemma4", ToolFormat::kGemma4},
    {"glm47", ToolFormat::kGlm47},
    {"phi4_mini_json", ToolFormat::kPhi4Mini},
    {"nemotron_json", ToolFormat::kNemotron},
    {"cohere_command3", ToolFormat::kCommand3},
    {"command_r", ToolFormat::kCommandR},
};

constexpr Name<ReasoningFormat> kReasoningNames[] = {
    {"none", ReasoningFormat::kNone},
    {"qwen3", ReasoningFormat::kThink},
    {"glm45", ReasoningFormat::kThink},
    {"deepseek_v3", ReasoningFormat::kThink},
    {"deepseek_r1", ReasoningFormat::kThinkFromStart},
    {"openai_gptoss", ReasoningFormat::kHarmony},
    {"granite", ReasoningFormat::kGranite},
    {"mistral", ReasoningFormat::kMistral},
    {"minimax_m2", ReasoningFormat::kInterleaved},
    {"gemma4", ReasoningFormat::kGemma4},
    {"cohere_command3", ReasoningFormat::kCommand3},
};

template <class Names>
auto FormatNamed(const Names& names, std::string_view name) -> std::optional<decltype(names[0].second)> {
  for (const auto& [known, format] : names) {
    if (name == known) return format;
  }
  return std::nullopt;
}

template <class Names>
std::string AllOf(const Names& names) {
  std::string all;
  for (const auto& [name, format] : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

template <class Names, class Format>
std::string FirstOf(const Names& names, Format format) {
  for (const auto& [name, named] : names) {
    if (named == format) return name;
  }
  return "none";
}

ToolFormat ToolsOf(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has("<|channel|>")) return ToolFormat::kHarmony;
  if (has("{function-name}<arg_key>")) return ToolFormat::kGlm47;
  if (has("<arg_key>")) return ToolFormat::kGlm45;
  if (has("<function=")) return has("<parameter=") ? ToolFormat::kQwen3Coder : ToolFormat::kNone;
  if (has("<｜tool▁calls▁begin｜>")) return has("```json") ? ToolFormat::kDeepSeekV3 : ToolFormat::kDeepSeekV31;
  if (has("<|tool_calls_section_begin|>")) return ToolFormat::kKimiK2;
  if (has("<minimax:tool_call>")) return ToolFormat::kMiniMaxM2;
  if (has("｜DSML｜") && has("function_calls")) return ToolFormat::kDeepSeekV32;
  if (has("<|tool_call_start|>") || has("<|tool_list_start|>") || has("List of tools: [")) return ToolFormat::kLfm2;
  if (has("<function_calls>")) return ToolFormat::kOlmo3;
  if (has("<|tool_call>call:")) return ToolFormat::kGemma4;
  if (has("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (has("<|/tool_call|>") || has("<|/tool|>")) return ToolFormat::kPhi4Mini;
  if (has("<|tool_call|>")) return ToolFormat::kGranite;
  if (has("<TOOLCALL>")) return ToolFormat::kNemotron;
  if (has("<|START_ACTION|>")) return ToolFormat::kCommand3;
  if (has("Action:") && has("```json") && has("tool_name")) return ToolFormat::kCommandR;
  if (has("<tool_call>")) return ToolFormat::kHermes;
  if (has("<|python_tag|>") || has(R"({"name": function name, "parameters":)")) return ToolFormat::kLlama3Json;
  if (has("[func_name1(")) return ToolFormat::kPythonic;
  return ToolFormat::kNone;
}

ReasoningFormat ReasoningOf(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has("<|channel|>")) return ReasoningFormat::kHarmony;
  if (has("<|channel>")) return ReasoningFormat::kGemma4;
  if (has("[THINK]")) return ReasoningFormat::kMistral;
  if (has("<|START_THINKING|>") || has("<|START_RESPONSE|>")) return ReasoningFormat::kCommand3;
  if (has("<minimax:tool_call>")) return ReasoningFormat::kInterleaved;  // <response> holds results of tools
  if (has("Here is my thought process:") || (has("<think>") && has("<response>"))) return ReasoningFormat::kGranite;
  if (has("</think>") || has("<think>")) return ReasoningFormat::kThink;
  return ReasoningFormat::kNone;
}

}  // namespace

AnswerFormat FormatOfTemplate(std::string_view source) { return {ToolsOf(source), ReasoningOf(source)}; }

std::optional<ToolFormat> ToolFormatNamed(std::string_view name) { return FormatNamed(kToolNames, name); }
std::optional<ReasoningFormat> ReasoningFormatNamed(std::string_view name) {
  return FormatNamed(kReasoningNames, name);
}
std::string ToolFormatNames() { return AllOf(kToolNames); }
std::string ReasoningFormatNames() { return AllOf(kReasoningNames); }
std::string NameOf(ToolFormat format) { return FirstOf(kToolNames, format); }
std::string NameOf(ReasoningFormat format) { return FirstOf(kReasoningNames, format); }

ReasoningMarks MarksOf(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::kThink:
    case ReasoningFormat::kThinkFromStart:
    case ReasoningFormat::kInterleaved:
      return {{"<think>"}, {"</think>"}};
    case ReasoningFormat::kMistral:
      return {{"[THINK]"}, {"[/THINK]"}};
    case ReasoningFormat::kGemma4:
      return {{"<|channel>thought"}, {"<channel|>"}};
    case ReasoningFormat::kGranite:
      return {{"<think>", "Here is my thought process:", "Here's my thought process:"},
              {"</think>", "Here is my response:", "Here's my response:"},
              "<response>",
              "</response>"};
    case ReasoningFormat::kCommand3:
      return {{"<|START_THINKING|>"}, {"<|END_THINKING|>"}, "<|START_RESPONSE|>", "<|END_RESPONSE|>"};
    case ReasoningFormat::kHarmony:
    case ReasoningFormat::kNone:
      break;
  }
  return {};
}

std::optional<ThoughtBounds> BoundsOf(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::kThink:
    case ReasoningFormat::kThinkFromStart:
    case ReasoningFormat::kInterleaved:
    case ReasoningFormat::kCommand3:
    case ReasoningFormat::kMistral: {
      const ReasoningMarks marks = MarksOf(format);
      return ThoughtBounds{marks.open.front(), marks.close.front()};
    }
    case ReasoningFormat::kGemma4:
      return ThoughtBounds{"<|channel>thought\n", "<channel|>"};
    case ReasoningFormat::kHarmony:
      return ThoughtBounds{"<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"};
    case ReasoningFormat::kGranite:
    case ReasoningFormat::kNone:
      break;
  }
  return std::nullopt;
}

bool HasNamedArguments(ToolFormat format) {
  return format == ToolFormat::kPythonic || format == ToolFormat::kGemma4 || format == ToolFormat::kLfm2 ||
         format == ToolFormat::kOlmo3;
}

bool HasBareValues(ToolFormat format) {
  return format == ToolFormat::kGlm45 || format == ToolFormat::kGlm47 || format == ToolFormat::kQwen3Coder ||
         format == ToolFormat::kMiniMaxM2 || format == ToolFormat::kDeepSeekV32 || format == ToolFormat::kGemma4;
}

namespace {

/// Returns the texts around calls, first the text that comes before the calls.
std::vector<std::string> CallMarkersOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kGeneric:
    case ToolFormat::kHermes:
    case ToolFormat::kQwen3Coder:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kGlm45:
    case ToolFormat::kGlm47:
      return {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
    case ToolFormat::kLlama3Json:
      return {"<|python_tag|>"};
    case ToolFormat::kPythonic:
      return {"<|python_tag|>", "<|python_start|>", "<|python_end|>"};
    case ToolFormat::kMistral:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
      return {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
              "<｜tool▁calls▁end｜>"};
    case ToolFormat::kGranite:
      return {"<|tool_call|>", "<tool_call>"};
    case ToolFormat::kKimiK2:
      return {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
              "<|tool_call_end|>", "<|tool_calls_section_end|>"};
    case ToolFormat::kMiniMaxM2:
      return {"<minimax:tool_call>", "</minimax:tool_call>"};
    case ToolFormat::kDeepSeekV32:
      return {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"};
    case ToolFormat::kLfm2:
      return {"<|tool_call_start|>", "<|tool_call_end|>"};
    case ToolFormat::kOlmo3:
      return {"<function_calls>", "</function_calls>"};
    case ToolFormat::kGemma4:
      return {"<|tool_call>", "<tool_call|>", "<|\"|>"};
    case ToolFormat::kPhi4Mini:
      return {"<|tool_call|>", "<|/tool_call|>"};
    case ToolFormat::kNemotron:
      return {"<TOOLCALL>", "</TOOLCALL>"};
    case ToolFormat::kCommand3:
      return {"<|START_ACTION|>", "<|END_ACTION|>"};
    case ToolFormat::kCommandR:
      return {"Action: ```json"};
    case ToolFormat::kHarmony:
    case ToolFormat::kNone:
      break;
  }
  return {};
}

}  // namespace

std::vector<std::string> MarkersOf(const AnswerFormat& format) {
  const ReasoningMarks thoughts = MarksOf(format.reasoning);
  std::vector<std::string> markers = thoughts.open;
  const auto add = [&](std::vector<std::string> more) { markers.insert(markers.end(), more.begin(), more.end()); };
  add(thoughts.close);
  if (!thoughts.response.empty()) add({thoughts.response, thoughts.response_end});
  if (format.reasoning == ReasoningFormat::kGemma4) add({"<|channel>"});
  add(CallMarkersOf(format.tools));
  if (format.tools == ToolFormat::kHarmony || format.reasoning == ReasoningFormat::kHarmony)
    add({"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"});
  return markers;
}

ReasoningStart StartAfter(ReasoningFormat format, std::string_view prompt) {
  const ReasoningMarks marks = MarksOf(format);
  const size_t end = prompt.find_last_not_of(" \t\r\n");
  prompt = prompt.substr(0, end == std::string_view::npos ? 0 : end + 1);
  const auto ends = [&](const std::string& mark) { return prompt.ends_with(mark); };
  if (std::ranges::any_of(marks.open, ends)) return ReasoningStart::kInside;
  if (marks.close.empty() || std::ranges::any_of(marks.close, ends)) return ReasoningStart::kNone;
  return format == ReasoningFormat::kThinkFromStart ? ReasoningStart::kInside : ReasoningStart::kUndecided;
}

}  // namespace quire
