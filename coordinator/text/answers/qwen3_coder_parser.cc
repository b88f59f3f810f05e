// Parser of Qwen3-Coder's calls: <tool_call>, <function=name>, <parameter=key> for each argument, </function>.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/xml_calls_parser.h"

namespace quire {

namespace {

constexpr std::string_view kFunction = "<function=";

class Qwen3CoderParser : public XmlCallsParser {
 public:
  /// The last list of tags has the texts that end a call if the model leaves out </function>.
  explicit Qwen3CoderParser(std::shared_ptr<const ToolUse> tools)
      : XmlCallsParser(std::move(tools),
                       {"<parameter=", "</parameter>", "</function>", {"</tool_call>", "<tool_call>"}}) {}

 private:
  /// Passes on content up to a call. Without a grammar, the model sometimes leaves out <tool_call>.
  bool Text() override {
    static const std::vector<std::string> kOpens = {"<tool_call>", "<function="}, kOpen = {kOpens[0]};
    const auto mark = PassUntil(tools()->has_grammar() ? kOpen : kOpens, AnswerPart::kContent);
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
    const size_t end = rest().substr(0, kMaxParameterBytes + 1).find('>');  // a longer name is no function's name
    if (end == std::string_view::npos && rest().size() <= kMaxParameterBytes && !at_end()) return false;
    if (end == std::string_view::npos) {
      Skip(kFunction.size());
      return Fail();
    }
    const std::string name(rest().substr(kFunction.size(), end - kFunction.size()));
    Skip(end + 1);
    return Begin(name);
  }

  bool Key() override {
    bool failed = false;
    const auto key = BoundedKey({">"}, failed);
    if (!key) return failed;
    Skip(1);
    key_ = *key;
    BeginValue();
    return true;
  }

  bool BeforeValue() override { return false; }

  /// Returns the value without the line breaks next to its tags.
  std::string_view Separated(std::string_view value, bool) const override {
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    return value;
  }

  Match FollowsValue(size_t at) const override {
    const Match key = NamesParameter("<parameter=", ">", at);
    if (key != Match::kNo) return key;
    const Match function = StandsBefore("</function>", "</tool_call>", at);
    return function == Match::kNo ? StandsBefore("</tool_call>", "<tool_call>", at) : function;
  }

  bool End() override {
    if (!SkipSpace()) return false;
    if (TakeClosing("</tool_call>") == Match::kUnknown) return false;
    state_ = State::kText;
    return true;
  }
};

}  // namespace

std::unique_ptr<AnswerParser> MakeQwen3CoderParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<Qwen3CoderParser>(std::move(tools));
}

}  // namespace quire
