// Parser of calls between the marks of DeepSeek's and Kimi's models. DeepSeek V3 and R1 write
// <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, a line break, and the arguments between ```json and ```. DeepSeek V3.1
// writes <｜tool▁call▁begin｜>name<｜tool▁sep｜>arguments. Kimi-K2 writes
// <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>arguments.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr std::string_view kJsonFence = "```json", kBackticks = "```";

struct Marks {
  std::string_view calls_begin, call_begin, separator, call_end, calls_end;
};

constexpr Marks kDeepSeek = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                             "<｜tool▁calls▁end｜>"};
constexpr Marks kKimi = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                         "<|tool_call_end|>", "<|tool_calls_section_end|>"};

/// Returns the function's name in one of Kimi's ids, which look like functions.name:0.
std::string NameInId(std::string id) {
  constexpr std::string_view kBegin = "functions.";
  id.erase(0, id.find_first_not_of(" \t\r\n"));
  if (id.starts_with(kBegin)) id.erase(0, kBegin.size());
  const size_t digits = id.find_last_not_of("0123456789");
  if (digits != std::string::npos && digits + 1 < id.size() && id[digits] == ':') id.erase(digits);
  return id;
}

class DeepSeekParser : public StepParser {
 public:
  DeepSeekParser(const Marks& marks, std::shared_ptr<const ToolUse> use)
      : StepParser(std::move(use)), marks_(marks), opens_{std::string(marks.calls_begin)} {
    if (!tools()->has_grammar()) opens_.emplace_back(marks.call_begin);
  }

 private:
  enum class State { kText, kBetween, kHead, kAfterSeparator, kFence, kArguments, kFenceEnd, kEnd };

  bool Step() override {
    switch (state_) {
      case State::kText:
        if (!PassUntil(opens_, AnswerPart::kContent)) return false;
        Attempt();
        attempting_ = true;
        if (rest().starts_with(marks_.calls_begin)) Skip(marks_.calls_begin.size());
        state_ = State::kBetween;
        return true;
      case State::kBetween:
        return Between();
      case State::kHead: {
        const Match head = TakeShort(marks_.separator, head_);
        if (head != Match::kYes) return head == Match::kNo && Fail();
        state_ = State::kAfterSeparator;
        return true;
      }
      case State::kAfterSeparator:
        return AfterSeparator();
      case State::kFence:
        if (!SkipSpace() || Take(kJsonFence) == Match::kUnknown) return false;
        state_ = State::kArguments;
        return true;
      case State::kArguments:
        return ArgumentsOfCall();
      case State::kFenceEnd:
        return MaybeClose(kBackticks, State::kEnd);
      case State::kEnd:
        return MaybeClose(marks_.call_end, State::kBetween);
    }
    return false;
  }

  void BackToText() override {
    state_ = State::kText;
    attempting_ = false;
  }

  /// Parses the text before a call, or after the last call.
  bool Between() {
    if (!SkipSpace()) return false;
    const Match next = Peek(marks_.call_begin), over = Peek(marks_.calls_end);
    if (next == Match::kUnknown || over == Match::kUnknown) return false;
    if (next == Match::kYes) {
      if (!attempting_) Attempt();
      Take(marks_.call_begin);
      attempting_ = true;
      state_ = State::kHead;
    } else if (over == Match::kYes && !attempting_) {
      Take(marks_.calls_end);
      state_ = State::kText;
    } else if (attempting_ || TakeClosing(marks_.calls_end) != Match::kYes) {
      Fail();
    }
    return true;
  }

  bool MaybeClose(std::string_view what, State then) {
    if (!SkipSpace()) return false;
    if (TakeClosing(what) == Match::kUnknown) return false;
    state_ = then;
    return true;
  }

  /// Takes the text before the mark, and the mark. Returns kNo when the mark does not begin within the first
  /// kMaxHeadBytes bytes.
  Match TakeShort(std::string_view mark, std::string& before) {
    const std::string_view front = rest().substr(0, kMaxHeadBytes + mark.size());
    const size_t found = front.find(mark);
    if (found == std::string_view::npos)
      return front.size() == kMaxHeadBytes + mark.size() || at_end() ? Match::kNo : Match::kUnknown;
    before = front.substr(0, found);
    Skip(found + mark.size());
    return Match::kYes;
  }

  bool AfterSeparator() {
    const size_t first = EndOfSpace();
    if (first > kMaxSpaceBytes) return Fail();
    if (first == rest().size()) return false;
    name_ = head_;
    if (rest()[first] != '{') {
      const Match line = TakeShort("\n", name_);
      if (line != Match::kYes) return line == Match::kNo && Fail();
    }
    const size_t last = name_.find_last_not_of(" \t\r\n");
    name_.erase(last == std::string::npos ? 0 : last + 1);
    if (tools()->Find(name_) == nullptr && &marks_ == &kKimi) name_ = NameInId(name_);
    if (tools()->Find(name_) == nullptr) return Fail();
    BeginArguments();
    state_ = State::kFence;
    return true;
  }

  bool ArgumentsOfCall() {
    const Match whole = PassCall(name_);
    if (whole != Match::kYes) return whole == Match::kNo && Fail();
    attempting_ = false;
    state_ = State::kFenceEnd;
    return true;
  }

  static constexpr size_t kMaxHeadBytes = 256;

  const Marks& marks_;
  std::vector<std::string> opens_;  // texts that calls begin with
  State state_ = State::kText;
  bool attempting_ = false;  // an attempt at a call is in progress
  std::string head_, name_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeDeepSeekParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<DeepSeekParser>(kDeepSeek, std::move(tools));
}

std::unique_ptr<AnswerParser> MakeKimiParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<DeepSeekParser>(kKimi, std::move(tools));
}

}  // namespace quire
