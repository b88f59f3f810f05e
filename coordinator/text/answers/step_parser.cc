#include "coordinator/text/answers/step_parser.h"

#include <algorithm>
#include <utility>

#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr int kMaxCalls = 128;
constexpr size_t kDrop = 4096;  // most consumed bytes that stay in the buffer

/// Returns the length of the longest end of `text` that may be the beginning of `mark`; 0: none. The whole mark is not
/// such an end.
size_t OverlapAtEnd(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
    if (text.ends_with(mark.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

void StepParser::Push(std::string_view text, AnswerParts& out) {
  waiting_ += text;
  Run(out);
}

void StepParser::Finish(bool cut, AnswerParts& out) {
  at_end_ = true;
  cut_ = cut;
  Run(out);
  out_ = &out;
  if (attempt_ && (tool_ == nullptr || !cut)) Fail();
  if (!rest().empty()) {
    Emit(AnswerPart::kContent, rest());
    Skip(rest().size());
  }
  if (!after_call_) Append(AnswerPart::kContent, std::exchange(space_, {}), -1);
}

void StepParser::Run(AnswerParts& out) {
  out_ = &out;
  while (Step()) {
  }
  const size_t done = attempt_ ? std::min(*attempt_, at_) : at_;
  if (done < kDrop) return;
  waiting_.erase(0, done);
  at_ -= done;
  if (attempt_) *attempt_ -= done;
}

bool StepParser::SkipSpace() {
  const size_t first = rest().find_first_not_of(kJsonSpace);
  Skip(first == std::string_view::npos ? rest().size() : first);
  return !rest().empty();
}

size_t StepParser::EndOfSpace(size_t from) const {
  return std::min(rest().find_first_not_of(kJsonSpace, from), rest().size());
}

StepParser::Match StepParser::Peek(std::string_view text, size_t offset) const {
  const std::string_view there = rest().substr(offset);
  if (there.starts_with(text)) return Match::kYes;
  return !at_end_ && text.starts_with(there) ? Match::kUnknown : Match::kNo;
}

StepParser::Match StepParser::Take(std::string_view text) {
  const Match match = Peek(text);
  if (match == Match::kYes) Skip(text.size());
  return match;
}

StepParser::Match StepParser::TakeClosing(std::string_view text) {
  if (!at_end_ || !cut_ || !text.starts_with(rest())) return Take(text);
  Skip(rest().size());
  return Match::kYes;
}

std::optional<std::string> StepParser::TakeUntil(std::string_view mark) {
  const size_t found = rest().find(mark, searched_);
  if (found == std::string_view::npos) {
    searched_ = rest().size() - std::min(rest().size(), mark.size() - 1);
    return std::nullopt;
  }
  std::string before(rest().substr(0, found));
  Skip(found + mark.size());
  return before;
}

std::optional<size_t> StepParser::PassUntil(const std::vector<std::string>& marks, AnswerPart::Kind kind) {
  size_t first = std::string::npos, which = 0, keep = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    const size_t found = rest().find(marks[i]);
    if (found < first) first = found, which = i;
    if (!at_end_) keep = std::max(keep, OverlapAtEnd(rest(), marks[i]));
  }
  const bool is_there = first != std::string::npos;
  const size_t length = is_there ? first : rest().size() - keep;
  Emit(kind, rest().substr(0, length));
  Skip(length);
  return is_there ? std::optional(which) : std::nullopt;
}

void StepParser::Append(AnswerPart::Kind kind, std::string_view text, int call) {
  if (text.empty() && kind != AnswerPart::kCall) return;
  const bool joins = (kind != AnswerPart::kCall && kind != AnswerPart::kBroken) && !out_->empty() &&
                     out_->back().kind == kind && out_->back().call == call;
  if (joins) {
    out_->back().text += text;
  } else {
    out_->push_back({kind, std::string(text), call});
  }
}

/// Emits content. Whitespace waits for the text after it, because next to calls whitespace counts as content only
/// between words.
void StepParser::EmitContent(std::string_view text) {
  if (after_call_ && !space_.empty()) text.remove_prefix(std::min(text.size(), text.find_first_not_of(kJsonSpace)));
  if (text.empty()) return;
  const size_t last = text.find_last_not_of(kJsonSpace);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  if (after_call_ && !has_content_) {
    space_.clear();
    text.remove_prefix(text.find_first_not_of(kJsonSpace));
  }
  const size_t length = text.find_last_not_of(kJsonSpace) + 1;
  Append(AnswerPart::kContent, std::exchange(space_, std::string(text.substr(length))), -1);
  Append(AnswerPart::kContent, text.substr(0, length), -1);
  after_call_ = false;
  has_content_ = true;
}

void StepParser::Emit(AnswerPart::Kind kind, std::string_view text) {
  if (kind == AnswerPart::kContent && tools_ != nullptr) {
    EmitContent(text);
  } else {
    Append(kind, text, -1);
  }
}

bool StepParser::BeginCall(std::string_view name) {
  if (tools_ == nullptr || num_calls_ == kMaxCalls) return false;
  tool_ = tools_->Find(name);
  if (tool_ == nullptr) return false;
  Append(AnswerPart::kCall, name, num_calls_);
  return true;
}

void StepParser::Arguments(std::string_view piece) { Append(AnswerPart::kArguments, piece, num_calls_); }

void StepParser::EndCall() {
  ++num_calls_;
  tool_ = nullptr;
  attempt_.reset();
  after_call_ = true;
}

bool StepParser::Fail() {
  const size_t begin = attempt_.value_or(at_);
  const std::string_view written = std::string_view(waiting_).substr(begin, at_ - begin);
  if (tool_ != nullptr) {
    Append(AnswerPart::kContent, std::exchange(space_, {}), -1);
    Append(AnswerPart::kBroken, written, num_calls_);
    ++num_calls_;
    tool_ = nullptr;
    after_call_ = false;
    has_content_ = true;
  } else {
    Emit(AnswerPart::kContent, written);
  }
  attempt_.reset();
  BackToText();
  return true;
}

JsonScanner::Status StepParser::PassArguments() {
  const std::string_view text = rest();
  std::string piece;
  auto status = JsonScanner::Status::kMore;
  size_t taken = 0;
  while (taken < text.size() && status == JsonScanner::Status::kMore) {
    const bool in_string = arguments_.in_string();
    status = arguments_.Next(text[taken]);
    if (status == JsonScanner::Status::kError) break;
    if (in_string) {
      AppendInsideString(text[taken], piece);
    } else {
      piece += text[taken];
    }
    ++taken;
  }
  Arguments(piece);
  Skip(taken);
  return status;
}

StepParser::Match StepParser::PassCall(std::string_view name) {
  if (!in_call()) {
    if (!SkipSpace()) return Match::kUnknown;
    if (rest()[0] != '{' || !BeginCall(name)) return Match::kNo;
  }
  const JsonScanner::Status status = PassArguments();
  if (status == JsonScanner::Status::kMore) return Match::kUnknown;
  if (status == JsonScanner::Status::kError) return Match::kNo;
  EndCall();
  return Match::kYes;
}

namespace {

/// Returns a parser for the text outside thoughts; null: all that text is content.
std::unique_ptr<AnswerParser> MakeCallsParser(ToolFormat format, const std::shared_ptr<const ToolUse>& tools) {
  if (tools == nullptr) return nullptr;
  switch (format) {
    case ToolFormat::kGeneric:
    case ToolFormat::kHermes:
    case ToolFormat::kLlama3Json:
    case ToolFormat::kMistral:
    case ToolFormat::kGranite:
    case ToolFormat::kNemotron:
    case ToolFormat::kPhi4Mini:
    case ToolFormat::kCommand3:
    case ToolFormat::kCommandR:
      return MakeJsonCallsParser(format, tools);
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
      return MakeDeepSeekParser(tools);
    case ToolFormat::kKimiK2:
      return MakeKimiParser(tools);
    case ToolFormat::kGlm45:
    case ToolFormat::kGlm47:
      return MakeGlmParser(tools);
    case ToolFormat::kQwen3Coder:
      return MakeQwen3CoderParser(tools);
    case ToolFormat::kGemma4:
      return MakeGemmaParser(tools);
    case ToolFormat::kMiniMaxM2:
      return MakeMiniMaxParser(tools);
    case ToolFormat::kDeepSeekV32:
      return MakeDsmlParser(tools);
    case ToolFormat::kPythonic:
    case ToolFormat::kLfm2:
    case ToolFormat::kOlmo3:
      return MakePythonicParser(format, tools);
    case ToolFormat::kHarmony:
    case ToolFormat::kNone:
      break;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<AnswerParser> MakeAnswerParser(const AnswerShape& shape) {
  const auto& [format, start, tools] = shape;
  if (shape.is_plain()) return nullptr;
  if (format.tools == ToolFormat::kHarmony || format.reasoning == ReasoningFormat::kHarmony)
    return MakeHarmonyParser(tools);
  if (format.reasoning == ReasoningFormat::kNone) return MakeCallsParser(format.tools, tools);
  const AnswerFormat of_parts{tools == nullptr ? ToolFormat::kNone : format.tools, format.reasoning};
  return MakeReasoningParser(of_parts, start,
                             [calls = format.tools, tools = tools] { return MakeCallsParser(calls, tools); });
}

}  // namespace quire
