// Calls that are written with tags. GLM 4.5: <tool_call>name, then <arg_key> and <arg_value> in turns. Qwen3-Coder:
// <tool_call>, <function=name>, <parameter=key> for each, </function>. Values are bare text: the tool's schema says
// what they are.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/typed_values.h"

namespace quire {

namespace {

constexpr size_t kMaxParameterBytes = 256;
constexpr std::string_view kFunction = "<function=";

class XmlCallsParser : public StepParser {
 public:
  explicit XmlCallsParser(std::shared_ptr<const ToolUse> tools) : StepParser(std::move(tools)) {}

 protected:
  enum class State { kText, kHead, kBetween, kKey, kBeforeValue, kValue, kEnd };

  bool Step() override {
    switch (state_) {
      case State::kText:
        return Text();
      case State::kHead:
        return Head();
      case State::kBetween:
        return Between();
      case State::kKey:
        return Key();
      case State::kBeforeValue:
        return BeforeValue();
      case State::kValue:
        return Value();
      case State::kEnd:
        return End();
    }
    return false;
  }

  virtual bool Text() = 0;
  virtual bool Head() = 0;
  virtual bool Between() = 0;
  virtual bool Key() = 0;
  virtual bool BeforeValue() = 0;
  virtual bool Value() = 0;
  virtual bool End() = 0;

  void BackToText() override { state_ = State::kText; }

  /// The text before a mark; nothing when it is not there yet, or when this is no call, which `failed` tells.
  std::optional<std::string> Bounded(std::string_view mark, bool& failed) {
    auto text = TakeUntil(mark);
    failed = text ? text->size() > kMaxParameterBytes : rest().size() > kMaxParameterBytes + mark.size() || at_end();
    if (failed) Fail();
    return failed ? std::nullopt : text;
  }

  bool Begin(std::string name) {
    const size_t first = name.find_first_not_of(" \t\r\n"), last = name.find_last_not_of(" \t\r\n");
    name = first == std::string::npos ? "" : name.substr(first, last - first + 1);
    if (!BeginCall(name)) return Fail();
    num_arguments_ = 0;
    Arguments("{");
    state_ = State::kBetween;
    return true;
  }

  void Argument(std::string_view value) {
    Arguments((num_arguments_++ > 0 ? ", " : "") + JsonString(key_) + ": " + TypedValue(*tool(), key_, value));
    state_ = State::kBetween;
  }

  bool Close() {
    Arguments("}");
    EndCall();
    state_ = State::kEnd;
    return true;
  }

  State state_ = State::kText;
  std::string key_;

 private:
  int num_arguments_ = 0;
};

class GlmParser : public XmlCallsParser {
 public:
  using XmlCallsParser::XmlCallsParser;

 private:
  bool Text() override {
    static const std::vector<std::string> kOpens = {"<tool_call>"};
    if (!PassUntil(kOpens, AnswerPart::kContent)) return false;
    Attempt();
    Skip(kOpens[0].size());
    state_ = State::kHead;
    return true;
  }

  /// The name ends at the first line's end, or where a tag begins.
  bool Head() override {
    if (!SkipSpace()) return false;
    const size_t end = rest().find_first_of("<\n");
    if (end == std::string_view::npos) return rest().size() > kMaxParameterBytes ? Fail() : false;
    const std::string name(rest().substr(0, end));
    Skip(end);
    return Begin(name);
  }

  bool Between() override {
    if (!SkipSpace()) return false;
    const Match key = Peek("<arg_key>"), close = Peek("</tool_call>");
    if (key == Match::kYes) {
      Take("<arg_key>");
      state_ = State::kKey;
      return true;
    }
    if (close == Match::kYes) {
      Take("</tool_call>");
      return Close();
    }
    return key == Match::kUnknown || close == Match::kUnknown ? false : Fail();
  }

  bool Key() override {
    bool failed = false;
    const auto key = Bounded("</arg_key>", failed);
    if (!key) return failed;
    key_ = *key;
    state_ = State::kBeforeValue;
    return true;
  }

  bool BeforeValue() override {
    if (!SkipSpace()) return false;
    const Match value = Take("<arg_value>");
    if (value == Match::kUnknown) return false;
    if (value == Match::kNo) return Fail();
    state_ = State::kValue;
    return true;
  }

  bool Value() override {
    const auto value = TakeUntil("</arg_value>");
    if (!value) return false;
    Argument(*value);
    return true;
  }

  bool End() override {
    state_ = State::kText;
    return true;
  }
};

class Qwen3CoderParser : public XmlCallsParser {
 public:
  using XmlCallsParser::XmlCallsParser;

 private:
  /// The model sometimes leaves <tool_call> out.
  bool Text() override {
    static const std::vector<std::string> kOpens = {"<tool_call>", "<function="};
    const auto mark = PassUntil(kOpens, AnswerPart::kContent);
    if (!mark) return false;
    Attempt();
    if (*mark == 0) Skip(kOpens[0].size());
    state_ = State::kHead;
    return true;
  }

  bool Head() override {
    if (!SkipSpace()) return false;
    const Match opens = Peek(kFunction);
    if (opens != Match::kYes) return opens == Match::kUnknown ? false : Fail();
    const size_t end = rest().find('>');
    if (end == std::string_view::npos && rest().size() <= kMaxParameterBytes && !at_end()) return false;
    if (end == std::string_view::npos) {
      Skip(kFunction.size());
      return Fail();
    }
    const std::string name(rest().substr(kFunction.size(), end - kFunction.size()));
    Skip(end + 1);
    return Begin(name);
  }

  bool Between() override {
    if (!SkipSpace()) return false;
    const Match key = Peek("<parameter="), close = Peek("</function>");
    if (key == Match::kYes) {
      Take("<parameter=");
      state_ = State::kKey;
      return true;
    }
    if (close == Match::kYes) {
      Take("</function>");
      return Close();
    }
    return key == Match::kUnknown || close == Match::kUnknown ? false : Fail();
  }

  bool Key() override {
    bool failed = false;
    const auto key = Bounded(">", failed);
    if (!key) return failed;
    key_ = *key;
    state_ = State::kValue;
    return true;
  }

  bool BeforeValue() override { return false; }

  /// The line breaks next to the tags are not the value's.
  bool Value() override {
    auto value = TakeUntil("</parameter>");
    if (!value) return false;
    if (value->starts_with('\n')) value->erase(0, 1);
    if (value->ends_with('\n')) value->pop_back();
    Argument(*value);
    return true;
  }

  bool End() override {
    if (!SkipSpace()) return false;
    if (Take("</tool_call>") == Match::kUnknown) return false;
    state_ = State::kText;
    return true;
  }
};

}  // namespace

std::unique_ptr<AnswerParser> MakeXmlCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools) {
  if (format == ToolFormat::kGlm45) return std::make_unique<GlmParser>(std::move(tools));
  return std::make_unique<Qwen3CoderParser>(std::move(tools));
}

}  // namespace quire
