// Parser of DeepSeek's calls. V3 and R1: <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, a line break, and the
// arguments between ```json and ```. V3.1: <｜tool▁call▁begin｜>name<｜tool▁sep｜>arguments.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>", kCallBegin = "<｜tool▁call▁begin｜>",
                           kSeparator = "<｜tool▁sep｜>", kCallEnd = "<｜tool▁call▁end｜>",
                           kCallsEnd = "<｜tool▁calls▁end｜>", kJsonFence = "```json", kBackticks = "```";

class DeepSeekParser : public StepParser {
 public:
  explicit DeepSeekParser(std::shared_ptr<const ToolUse> use)
      : StepParser(std::move(use)), opens_{std::string(kCallsBegin)} {
    if (!tools()->has_grammar()) opens_.emplace_back(kCallBegin);
  }

 private:
  enum class State { kText, kBetween, kHead, kAfterSeparator, kFence, kArguments, kFenceEnd, kEnd };

  bool Step() override {
    switch (state_) {
      case State::kText:
        if (!PassUntil(opens_, AnswerPart::kContent)) return false;
        Attempt();
        attempting_ = true;
        if (rest().starts_with(kCallsBegin)) Skip(kCallsBegin.size());
        state_ = State::kBetween;
        return true;
      case State::kBetween:
        return Between();
      case State::kHead: {
        const auto head = TakeUntil(kSeparator);
        if (!head && (rest().size() > kMaxHeadBytes || at_end())) return Fail();
        if (!head) return false;
        head_ = *head;
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
        return MaybeClose(kCallEnd, State::kBetween);
    }
    return false;
  }

  void BackToText() override {
    state_ = State::kText;
    attempting_ = false;
  }

  /// Before a call, or after the last one.
  bool Between() {
    if (!SkipSpace()) return false;
    const Match next = Peek(kCallBegin), over = Peek(kCallsEnd);
    if (next == Match::kUnknown || over == Match::kUnknown) return false;
    if (next == Match::kYes) {
      if (!attempting_) Attempt();
      Take(kCallBegin);
      attempting_ = true;
      state_ = State::kHead;
    } else if (over == Match::kYes && !attempting_) {
      Take(kCallsEnd);
      state_ = State::kText;
    } else if (attempting_ || TakeClosing(kCallsEnd) != Match::kYes) {
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

  bool AfterSeparator() {
    const size_t first = EndOfSpace();
    if (first > kMaxSpaceBytes) return Fail();
    if (first == rest().size()) return false;
    name_ = head_;
    if (rest()[first] != '{') {
      const auto line = TakeUntil("\n");
      if (!line && (rest().size() > kMaxHeadBytes || at_end())) return Fail();
      if (!line) return false;
      name_ = *line;
    }
    const size_t last = name_.find_last_not_of(" \t\r\n");
    name_.erase(last == std::string::npos ? 0 : last + 1);
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

  std::vector<std::string> opens_;  // texts that calls begin with
  State state_ = State::kText;
  bool attempting_ = false;  // an attempt at a call is in progress
  std::string head_, name_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeDeepSeekParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<DeepSeekParser>(std::move(tools));
}

}  // namespace quire
