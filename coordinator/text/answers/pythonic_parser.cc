// Parser of calls written as Python: name(key=value). With Llama, the whole answer is a list of calls, perhaps between
// two control tokens. LFM2 writes lists between two marks, and OLMo 3 writes lines of calls between two marks.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/python_arguments.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

/// The texts with which a format surrounds its calls.
struct PythonManner {
  std::vector<std::string> opens;  // text before calls; empty: the calls are the whole answer
  std::string closes;              // text after all calls
  bool lists;                      // true: calls are in brackets, separated by commas; false: each call has a line
};

PythonManner PythonMannerOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kLfm2:
      return {{"<|tool_call_start|>"}, "<|tool_call_end|>", true};
    case ToolFormat::kOlmo3:
      return {{"<function_calls>"}, "</function_calls>", false};
    default:
      return {{}, "<|python_end|>", true};
  }
}

class PythonicParser : public StepParser {
 public:
  PythonicParser(ToolFormat format, std::shared_ptr<const ToolUse> tools)
      : StepParser(std::move(tools)),
        manner_(PythonMannerOf(format)),
        state_(manner_.opens.empty() ? State::kStart : State::kText) {}

 private:
  enum class State { kStart, kText, kOpened, kName, kBrackets, kAfter, kClosed };

  bool Step() override {
    switch (state_) {
      case State::kStart:
        return Start();
      case State::kText:
        return Text();
      case State::kOpened:
        return Opened();
      case State::kName:
        return Name();
      case State::kBrackets:
        return Brackets();
      case State::kAfter:
        return After();
      case State::kClosed:
        return Closed();
    }
    return false;
  }

  void BackToText() override { state_ = State::kText; }

  bool Text() {
    if (!PassUntil(manner_.opens, AnswerPart::kContent)) return false;
    Attempt();
    Skip(manner_.opens[0].size());
    listed_ = false;
    state_ = State::kOpened;
    return true;
  }

  bool Opened() {
    if (!SkipSpace()) return false;
    state_ = State::kName;
    if (!manner_.lists) return true;
    if (rest()[0] != '[') return Fail();
    Skip(1);
    return true;
  }

  bool Closed() {
    if (!manner_.opens.empty() && !SkipSpace()) return false;
    if (TakeClosing(manner_.closes) == Match::kUnknown) return false;
    state_ = State::kText;
    return true;
  }

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

  /// Parses the name of a call, or, after a comma, the end of the list.
  bool Name() {
    if (!SkipSpace()) return false;
    if (listed_ && manner_.lists && rest()[0] == ']') {
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
    if (!manner_.lists) return AfterLine();
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

  /// Parses the text after a line with a call: another call, or the end of all calls.
  bool AfterLine() {
    const Match closes = TakeClosing(manner_.closes);
    if (closes == Match::kUnknown) return false;
    if (closes == Match::kNo) Attempt();
    state_ = closes == Match::kYes ? State::kText : State::kName;
    return true;
  }

  const PythonManner manner_;
  State state_;
  bool started_ = false, listed_ = false;  // listed_: the list has a call
  std::string name_;
  PythonBrackets brackets_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakePythonicParser(ToolFormat format, std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<PythonicParser>(format, std::move(tools));
}

}  // namespace quire
