// Parser of calls that name functions and parameters in attributes. MiniMax-M2 writes <minimax:tool_call>, then for
// each call <invoke name="f">, <parameter name="key">value</parameter> for each argument, and </invoke>. DeepSeek V3.2
// writes the same with ｜DSML｜ in every tag, and says of each value whether it is a string.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/xml_calls_parser.h"

namespace quire {

namespace {

struct InvokeTags {
  std::string_view begin, invoke, parameter, close_value, close_invoke, end;
  bool says_strings;  // true: a parameter's tag has the attribute `string`
};

constexpr InvokeTags kMiniMaxTags = {"<minimax:tool_call>",
                                     "<invoke name=\"",
                                     "<parameter name=\"",
                                     "</parameter>",
                                     "</invoke>",
                                     "</minimax:tool_call>",
                                     false};
constexpr InvokeTags kDsmlTags = {"<｜DSML｜function_calls>",
                                  "<｜DSML｜invoke name=\"",
                                  "<｜DSML｜parameter name=\"",
                                  "</｜DSML｜parameter>",
                                  "</｜DSML｜invoke>",
                                  "</｜DSML｜function_calls>",
                                  true};

class InvokeParser : public XmlCallsParser {
 public:
  InvokeParser(const InvokeTags& tags, std::shared_ptr<const ToolUse> tools)
      : XmlCallsParser(std::move(tools),
                       {tags.parameter, tags.close_value, tags.close_invoke, {tags.end, tags.invoke}}),
        tags_(tags),
        opens_{std::string(tags.begin)} {}

 private:
  bool Text() override {
    if (!PassUntil(opens_, AnswerPart::kContent)) return false;
    Attempt();
    Skip(tags_.begin.size());
    state_ = State::kHead;
    return true;
  }

  bool Head() override {
    if (!SkipSpace()) return false;
    const Match opens = Peek(tags_.invoke);
    if (opens != Match::kYes) return opens == Match::kUnknown ? false : Fail();
    const size_t most = tags_.invoke.size() + kMaxParameterBytes;  // a longer name is no function's name
    const size_t end = rest().substr(0, most).find("\">", tags_.invoke.size());
    const bool is_long = rest().size() >= most;
    if (end == std::string_view::npos && !is_long && !at_end()) return false;
    if (end == std::string_view::npos) {
      Skip(tags_.invoke.size());
      return Fail();
    }
    const std::string name(rest().substr(tags_.invoke.size(), end - tags_.invoke.size()));
    Skip(end + 2);
    return Begin(name);
  }

  bool Key() override {
    bool failed = false;
    const auto key = BoundedKey({"\""}, failed);
    if (!key) return failed;
    Skip(1);
    key_ = *key;
    is_string_ = false;
    state_ = State::kBeforeValue;
    return true;
  }

  /// Parses the text between a parameter's name and its value, up to the end of the tag.
  bool BeforeValue() override {
    if (rest().empty() || CutInTag({">", kIsString, kIsNoString})) {
      if (is_cut()) CutArgument("");
      return false;
    }
    bool waits = false;
    for (const std::string_view tag : {std::string_view(">"), kIsString, kIsNoString}) {
      if (tag != ">" && !tags_.says_strings) continue;
      const Match match = Take(tag);
      waits |= match == Match::kUnknown;
      if (match != Match::kYes) continue;
      is_string_ = tag == kIsString;
      BeginValue();
      return true;
    }
    return waits ? false : Fail();
  }

  std::string_view Separated(std::string_view value, bool closed) const override {
    if (!closed && value.ends_with('\n')) value.remove_suffix(1);
    return value;
  }

  /// Returns the value as JSON. If no schema describes the value, the tag decides whether it is a string.
  std::string Typed(std::string_view value) const override {
    return is_said_string() ? JsonString(value) : XmlCallsParser::Typed(value);
  }
  std::string TypedCut(std::string_view value) const override {
    if (!is_said_string()) return XmlCallsParser::TypedCut(value);
    std::string text = JsonString(value);
    text.pop_back();
    return text;
  }
  bool is_said_string() const {
    const OrderedJson& schema = tool()->parameters;
    const bool lists = schema.is_object() && schema.contains("properties") && schema["properties"].is_object();
    return is_string_ && !(lists && schema["properties"].contains(key_));
  }

  Match FollowsValue(size_t at) const override {
    const Match key = NamesParameter(tags_.parameter, "\"", at);
    if (key != Match::kNo) return key;
    for (const std::string_view next : {tags_.end, tags_.invoke}) {
      const Match invoke = StandsBefore(tags_.close_invoke, next, at);
      if (invoke != Match::kNo) return invoke;
    }
    return StandsBefore(tags_.end, tags_.begin, at);
  }

  /// Parses the text after a call: another call, or the closing tag of all calls.
  bool End() override {
    if (!SkipSpace()) return false;
    const Match next = Peek(tags_.invoke);
    if (next == Match::kYes) {
      Attempt();
      state_ = State::kHead;
      return true;
    }
    if (TakeClosing(tags_.end) == Match::kUnknown || next == Match::kUnknown) return false;
    state_ = State::kText;
    return true;
  }

  static constexpr std::string_view kIsString = " string=\"true\">", kIsNoString = " string=\"false\">";

  const InvokeTags& tags_;
  const std::vector<std::string> opens_;
  bool is_string_ = false;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeMiniMaxParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<InvokeParser>(kMiniMaxTags, std::move(tools));
}

std::unique_ptr<AnswerParser> MakeDsmlParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<InvokeParser>(kDsmlTags, std::move(tools));
}

}  // namespace quire
