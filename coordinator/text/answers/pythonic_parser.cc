// Parser of calls written as a Python list: [name(key=value), other()]. The list is the whole answer, perhaps between
// two control tokens.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/python_arguments.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

class PythonicParser : public StepParser {
 public:
  explicit PythonicParser(std::shared_ptr<const ToolUse> tools) : StepParser(std::move(tools)) {}

 private:
  enum class State { kStart, kText, kName, kBrackets, kAfter, kClosed };

  bool Step() override {
    switch (state_) {
      case State::kStart:
        return Start();
      case State::kText:
        PassUntil({}, AnswerPart::kContent);
        return false;
      case State::kName:
        return Name();
      case State::kBrackets:
        return Brackets();
      case State::kAfter:
        return After();
      case State::kClosed: {
        const Match mark = Take("<|python_end|>");
        if (mark == Match::kUnknown) return false;
        state_ = State::kText;
        return true;
      }
    }
    return false;
  }

  void BackToText() override { state_ = State::kText; }

  bool Start() {
    if (!started_) Attempt();
    started_ = true;
    if (!SkipSpace()) return false;
    for (const char* mark : {"<|python_start|>", "<|python_tag|>"}) {
      const Match match = Take(mark);
      if (match == Match::kUnknown) return false;
      if (match == Match::kYes) return true;
    }
    if (rest()[0] != '[') return Fail();
    Skip(1);
    state_ = State::kName;
    return true;
  }

  /// Behind a comma the list may end.
  bool Name() {
    if (!SkipSpace()) return false;
    if (listed_ && rest()[0] == ']') {
      DropAttempt();
      Skip(1);
      state_ = State::kClosed;
      return true;
    }
    size_t length = 0;
    while (length < rest().size() && IsToolNameByte(rest()[length])) ++length;
    if (length > kMaxToolNameBytes) return Fail();
    if (length == rest().size()) return false;
    name_ = rest().substr(0, length);
    if (rest()[length] != '(' || tools()->Find(name_) == nullptr) return Fail();
    Skip(length + 1);
    brackets_ = PythonBrackets();
    state_ = State::kBrackets;
    return true;
  }

  /// Reads up to the bracket that closes the call. No text is examined twice.
  bool Brackets() {
    const std::string_view text = rest();
    if (!brackets_.Find(text, at_end())) return false;
    const size_t close = brackets_.place();
    const auto arguments = ReadPythonArguments(text.substr(0, close));
    if (!arguments || text[close] != ')' || !BeginCall(name_)) {
      Skip(close + 1);
      return Fail();
    }
    Arguments(*arguments);
    Skip(close + 1);
    EndCall();
    listed_ = true;
    state_ = State::kAfter;
    return true;
  }

  bool After() {
    if (!SkipSpace()) return false;
    const char c = rest()[0];
    if (c == ',') {
      Attempt();
      Skip(1);
      state_ = State::kName;
      return true;
    }
    state_ = c == ']' ? State::kClosed : State::kText;
    if (c == ']') Skip(1);
    return true;
  }

  State state_ = State::kStart;
  bool started_ = false, listed_ = false;  // listed_: the list has a call
  std::string name_;
  PythonBrackets brackets_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakePythonicParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<PythonicParser>(std::move(tools));
}

}  // namespace quire
