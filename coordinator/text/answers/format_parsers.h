#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// The longest whitespace before a possible call or thoughts. After longer whitespace there is no call, so that little
/// text waits and is examined again for each token.
inline constexpr size_t kMaxSpaceBytes = 256;

// Each function makes the parser of one format, or of several similar formats, of calls.
std::unique_ptr<AnswerParser> MakeJsonCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeDeepSeekParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeKimiParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeGlmParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeQwen3CoderParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeGemmaParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeMiniMaxParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeDsmlParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakePythonicParser(ToolFormat format, std::shared_ptr<const ToolUse> tools);
/// Makes the parser of gpt-oss's answers. If tools is null, the parser only separates thoughts.
std::unique_ptr<AnswerParser> MakeHarmonyParser(std::shared_ptr<const ToolUse> tools);
/// Makes a parser that separates thoughts and passes the remaining text to the parser that make_rest makes. If
/// make_rest is null, that text is content.
std::unique_ptr<AnswerParser> MakeReasoningParser(const AnswerFormat& format, ReasoningStart start,
                                                  std::function<std::unique_ptr<AnswerParser>()> make_rest);

}  // namespace quire
