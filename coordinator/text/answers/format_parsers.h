#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// Whitespace in front of a call or of thoughts, while nobody knows yet whether it is; behind more of it there is none.
/// So little waits, and is looked at again with each token.
inline constexpr size_t kMaxSpaceBytes = 256;

// One for each format.
std::unique_ptr<AnswerParser> MakeJsonCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeDeepSeekParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeGlmParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakeQwen3CoderParser(std::shared_ptr<const ToolUse> tools);
std::unique_ptr<AnswerParser> MakePythonicParser(std::shared_ptr<const ToolUse> tools);
/// tools may be null: then it splits thoughts only.
std::unique_ptr<AnswerParser> MakeHarmonyParser(std::shared_ptr<const ToolUse> tools);
/// Thoughts, and whatever a parser of the rest makes of the rest; make_rest makes one, or null: words.
std::unique_ptr<AnswerParser> MakeReasoningParser(const AnswerFormat& format, ReasoningStart start,
                                                  std::function<std::unique_ptr<AnswerParser>()> make_rest);

}  // namespace quire
