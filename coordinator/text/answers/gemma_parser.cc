// Parser of Gemma 4's calls: <|tool_call>call:name{key:value}<tool_call|>.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/gemma_arguments.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

class GemmaParser : public StepParser {
 public:
  explicit GemmaParser(std::shared_ptr<const ToolUse> tools) : StepParser(std::move(tools)) {}

 private:
  enum class State { kText, kCall, kName, kArguments, kEnd };

  bool Step() override {
    switch (state_) {
      case State::kText:
        return Text();
      case State::kCall: {
        if (!SkipSpace()) return false;
        const Match call = Take("call:");
        if (call == Match::kUnknown) return false;
        state_ = State::kName;
        return call == Match::kYes || Fail();
      }
      case State::kName:
        return Name();
      case State::kArguments:
        return ArgumentsOfCall();
      case State::kEnd:
        if (!SkipSpace() || TakeClosing("<tool_call|>") == Match::kUnknown) return false;
        state_ = State::kText;
        return true;
    }
    return false;
  }

  void BackToText() override { state_ = State::kText; }

  bool Text() {
    static const std::vector<std::string> kOpens = {"<|tool_call>"};
    if (!PassUntil(kOpens, AnswerPart::kContent)) return false;
    Attempt();
    Skip(kOpens[0].size());
    state_ = State::kCall;
    return true;
  }

  bool Name() {
    size_t length = 0;
    while (length < rest().size() && IsToolNameByte(rest()[length])) ++length;
    if (length > kMaxToolNameBytes) return Fail();
    if (length == rest().size()) return false;
    const std::string name(rest().substr(0, length));
    if (rest()[length] != '{') return Fail();
    Skip(length);
    if (!BeginCall(name)) return Fail();
    arguments_ = GemmaArguments(tool());
    state_ = State::kArguments;
    return true;
  }

  bool ArgumentsOfCall() {
    std::string json;
    size_t taken = 0;
    const GemmaArguments::Status status = arguments_.Read(rest(), taken, json);
    Arguments(json);
    Skip(taken);
    if (status == GemmaArguments::Status::kError) return Fail();
    if (status == GemmaArguments::Status::kDone) {
      EndCall();
      state_ = State::kEnd;
      return true;
    }
    if (!at_end() || !cut()) return false;
    Arguments(arguments_.Cut(rest()));
    Skip(rest().size());
    return false;
  }

  State state_ = State::kText;
  GemmaArguments arguments_{nullptr};
};

}  // namespace

std::unique_ptr<AnswerParser> MakeGemmaParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<GemmaParser>(std::move(tools));
}

}  // namespace quire
