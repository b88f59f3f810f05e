// Calls that are written as a list of Python's: [name(key=value), other()]. The whole answer is such a list, perhaps
// between tokens.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/typed_values.h"

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

  bool Name() {
    if (!SkipSpace()) return false;
    size_t length = 0;
    while (length < rest().size() && IsToolNameByte(rest()[length])) ++length;
    if (length > kMaxToolNameBytes) return Fail();
    if (length == rest().size()) return false;
    name_ = rest().substr(0, length);
    if (rest()[length] != '(' || tools()->Find(name_) == nullptr) return Fail();
    Skip(length + 1);
    depth_ = 1;
    scanned_ = 0;
    quote_ = 0;
    state_ = State::kBrackets;
    return true;
  }

  /// Up to the bracket that closes the call. What was looked at is not looked at again.
  bool Brackets() {
    const std::string_view text = rest();
    for (; scanned_ < text.size() && depth_ > 0; ++scanned_) {
      const char c = text[scanned_];
      if (escaped_) {
        escaped_ = false;
      } else if (quote_ != 0) {
        escaped_ = c == '\\';
        if (c == quote_) quote_ = 0;
      } else if (c == '"' || c == '\'') {
        quote_ = c;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth_;
      } else if (c == ')' || c == ']' || c == '}') {
        --depth_;
      }
    }
    if (depth_ > 0) return false;
    const auto arguments = PythonArguments(text.substr(0, scanned_ - 1));
    if (!arguments || text[scanned_ - 1] != ')' || !BeginCall(name_)) {
      Skip(scanned_);
      return Fail();
    }
    Arguments(*arguments);
    Skip(scanned_);
    EndCall();
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
  bool started_ = false;
  std::string name_;
  int depth_ = 0;   // brackets that are open
  char quote_ = 0;  // of the string that is open
  bool escaped_ = false;
  size_t scanned_ = 0;  // of rest()
};

}  // namespace

std::unique_ptr<AnswerParser> MakePythonicParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<PythonicParser>(std::move(tools));
}

}  // namespace quire
