#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// The formats in which models write function calls. Comments name the models or show the format. In options, formats
/// have the names of vLLM's parsers.
enum class ToolFormat {
  kNone,
  kHermes,      // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; also Qwen 2.5, Qwen 3, Granite 4
  kLlama3Json,  // the whole answer is {"name": ..., "parameters": {...}}, perhaps after <|python_tag|>
  kPythonic,    // the whole answer is [name(key=value), ...], a Python list
  kMistral,     // [TOOL_CALLS][{"name": ..., "arguments": ...}], or [TOOL_CALLS]name[ARGS]{...}
  kDeepSeekV3,  // V3 and R1: calls between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>, arguments in a code block
  kDeepSeekV31,  // V3.1: kDeepSeekV3 without the code block
  kHarmony,      // gpt-oss: messages in channels, calls to=functions.name
  kGlm45,        // <tool_call>name<arg_key>...</arg_key><arg_value>...</arg_value></tool_call>
  kGranite,      // Granite 3: <|tool_call|>[{"name": ..., "arguments": ...}]
  kQwen3Coder,   // <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
  kNemotron,     // Nemotron Nano 2 and Llama Nemotron: <TOOLCALL>[{"name": ..., "arguments": ...}]</TOOLCALL>
  kKimiK2,  // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}<|tool_call_end|>, all in a section
  kMiniMaxM2,    // in <minimax:tool_call>: <invoke name="f"><parameter name="key">value</parameter></invoke>
  kDeepSeekV32,  // kMiniMaxM2 with ｜DSML｜ in the tags, between <｜DSML｜function_calls> tags
  kLfm2,         // <|tool_call_start|>[name(key=value), ...]<|tool_call_end|>
  kOlmo3,        // <function_calls>, a line name(key=value) for each call, </function_calls>
  kGemma4,       // <|tool_call>call:name{key:<|"|>text<|"|>,other:1}<tool_call|>
  kGlm47,        // kGlm45 on one line
  kPhi4Mini,     // <|tool_call|>[{"name": ..., "arguments": ...}]<|/tool_call|>
  kCommand3,     // Command R7B, Command A: <|START_ACTION|>[{"tool_name": ..., "parameters": ...}]<|END_ACTION|>
  kCommandR,     // older Command R: Action: ```json, then a list as in kCommand3, and ```
  kGeneric,      // for models that were taught no format: kHermes, also in a block of code or as the whole answer
};

/// The formats in which models separate their reasoning ("thoughts") from the answer.
enum class ReasoningFormat {
  kNone,
  kThink,           // <think>...</think>, opened by the prompt or by the answer
  kThinkFromStart,  // <think> is assumed open at the start: DeepSeek R1's first template
  kHarmony,         // the Harmony channel "analysis"
  kGranite,         // "Here is my thought process:" ... "Here is my response:", or <think> and <response>
  kMistral,         // [THINK]...[/THINK]
  kGemma4,          // <|channel>thought ... <channel|>
  kInterleaved,     // <think> may open anywhere in an answer: MiniMax-M2
  kCommand3,        // <|START_THINKING|>...<|END_THINKING|>, then perhaps <|START_RESPONSE|>...: Command R7B, Command A
};

struct AnswerFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

/// Detects the answer format from the text of a chat template.
AnswerFormat FormatOfTemplate(std::string_view source);

/// Return the format that this value of --tool-call-parser or --reasoning-parser names ("none" included); nullopt for
/// unknown names.
std::optional<ToolFormat> ToolFormatNamed(std::string_view name);
std::optional<ReasoningFormat> ReasoningFormatNamed(std::string_view name);
/// Returns all names that --tool-call-parser, or --reasoning-parser, accepts, for error messages.
std::string ToolFormatNames();
std::string ReasoningFormatNames();
/// Returns the first name that --tool-call-parser, or --reasoning-parser, has for this format.
std::string NameOf(ToolFormat format);
std::string NameOf(ReasoningFormat format);

/// True if calls may contain values without type marks, so that the types follow only from the tool's schema.
bool HasBareValues(ToolFormat format);

/// True if a call lists its arguments by name, as in Python: f(a=1). Such calls cannot obey schema keywords about the
/// object of arguments as a whole.
bool HasNamedArguments(ToolFormat format);

/// Returns the texts that parsers of this format look for. If such a text is a control token, the token must stay in
/// the answer's text.
std::vector<std::string> MarkersOf(const AnswerFormat& format);

/// The texts that open and close thoughts, and the texts around the answer's own words; empty: there are none.
struct ReasoningMarks {
  std::vector<std::string> open, close;
  std::string response = {}, response_end = {};
};
ReasoningMarks MarksOf(ReasoningFormat format);

/// The text that opens thoughts, and the text that ends thoughts when they are cut short. Both begin with a control
/// token. BoundsOf returns nullopt for formats whose marks are ordinary words.
struct ThoughtBounds {
  std::string open, close;
};
std::optional<ThoughtBounds> BoundsOf(ReasoningFormat format);

/// Says whether an answer to this prompt begins inside thoughts, begins without thoughts, or may do either.
enum class ReasoningStart { kUndecided, kInside, kNone };
ReasoningStart StartAfter(ReasoningFormat format, std::string_view prompt);

}  // namespace quire
