#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// How a model writes calls of functions. Named as vLLM names its parsers.
enum class ToolFormat {
  kNone,
  kHermes,      // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; also Qwen 2.5, Qwen 3, Granite 4
  kLlama3Json,  // the whole answer is {"name": ..., "parameters": {...}}, perhaps after <|python_tag|>
  kPythonic,    // the whole answer is [name(key=value), ...]
  kMistral,     // [TOOL_CALLS][{"name": ..., "arguments": ...}], or [TOOL_CALLS]name[ARGS]{...}
  kDeepSeekV3,  // V3 and R1: calls between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>, arguments in a code block
  kDeepSeekV31,  // the same without the block
  kHarmony,      // gpt-oss: messages in channels, calls to=functions.name
  kGlm45,        // <tool_call>name<arg_key>...</arg_key><arg_value>...</arg_value></tool_call>
  kGranite,      // Granite 3: <|tool_call|>[{"name": ..., "arguments": ...}]
  kQwen3Coder,   // <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
};

/// How a model sets its thoughts apart from its answer.
enum class ReasoningFormat {
  kNone,
  kThink,           // <think>...</think>, where the prompt or the answer opens it
  kThinkFromStart,  // the same, opened even where neither shows it: DeepSeek R1's first template
  kHarmony,         // the channel "analysis"
  kGranite,         // "Here is my thought process:" ... "Here is my response:", or <think> and <response>
  kMistral,         // [THINK]...[/THINK]
};

struct AnswerFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

/// What a chat template's text says of the answers that its model gives.
AnswerFormat FormatOfTemplate(std::string_view source);

/// By the names of --tool-call-parser and --reasoning-parser, "none" among them; nothing: there is no such name.
std::optional<ToolFormat> ToolFormatNamed(std::string_view name);
std::optional<ReasoningFormat> ReasoningFormatNamed(std::string_view name);
/// All those names, for error messages.
std::string ToolFormatNames();
std::string ReasoningFormatNames();
/// One of the names of a format.
std::string NameOf(ToolFormat format);
std::string NameOf(ReasoningFormat format);

/// Texts that parsers of this format look for. Where such a text is a control token, it has to be left in the answer's
/// text for them.
std::vector<std::string> MarkersOf(const AnswerFormat& format);

/// Texts that open and that close thoughts.
struct ReasoningMarks {
  std::vector<std::string> open, close;
};
ReasoningMarks MarksOf(ReasoningFormat format);

/// What opens thoughts, and what has to follow them where they are cut: texts that begin with a control token of the
/// model's. Nothing: this format's thoughts begin and end with words.
struct ThoughtBounds {
  std::string open, close;
};
std::optional<ThoughtBounds> BoundsOf(ReasoningFormat format);

/// Where an answer to this prompt begins.
enum class ReasoningStart { kUndecided, kInside, kNone };
ReasoningStart StartAfter(ReasoningFormat format, std::string_view prompt);

}  // namespace quire
