#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// The longest whitespace before a possible call or thoughts. After more whitespace no call is assumed, so that little
/// text waits and is examined again with each token.
inline constexpr size_t kMaxSpaceBytes = 256;

// Each function makes the parser of one format of calls, or of several similar ones.
std::unique_ptr<AnswerParser> MakeJsonCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeDeepSeekParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeKimiParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeGlmParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeQwen3CoderParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeGemmaParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeMiniMaxParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeDsmlParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakePythonicParser(ToolFormat format, std::shared_ptr<const ToolUse> tools);
/// Makes the parser of gpt-oss's answers. tools: null makes a parser that only separates thoughts.
std::unique_ptr<AnswerParser> MakeHarmonyParser(std::shared_ptr<const ToolUse> tools);
/// Makes a parser that separates thoughts and passes the rest to the parser made by make_rest. If make_rest is null,
/// the rest is content.
std::unique_ptr<AnswerParser> MakeReasoningParser(const AnswerFormat& format, ReasoningStart start,
                                                  std::function<std::unique_ptr<AnswerParser>()> make_rest);

}  // namespace quire
