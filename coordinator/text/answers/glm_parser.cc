// Parser of GLM 4.5's and GLM 4.7's calls: <tool_call>name, then alternating <arg_key> and <arg_value>.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/xml_calls_parser.h"

namespace quire {

namespace {

class GlmParser : public XmlCallsParser {
 public:
  explicit GlmParser(std::shared_ptr<const ToolUse> tools)
      : XmlCallsParser(std::move(tools), {"<arg_key>", "</arg_value>", "</tool_call>", {"<tool_call>"}}) {}

 private:
  bool Text() override {
    static const std::vector<std::string> kOpens = {"<tool_call>"};
    if (!PassUntil(kOpens, AnswerPart::kContent)) return false;
    Attempt();
    Skip(kOpens[0].size());
    state_ = State::kHead;
    return true;
  }

  /// Reads the name, which ends at the first line break or at a tag.
  bool Head() override {
    if (!SkipSpace()) return false;
    const size_t end = rest().find_first_of("<\n");
    if (end == std::string_view::npos) return rest().size() > kMaxParameterBytes ? Fail() : false;
    const std::string name(rest().substr(0, end));
    Skip(end);
    return Begin(name);
  }

  bool Key() override {
    bool failed = false;
    auto key = BoundedKey({"</arg_key>", "<arg_value>"}, failed);
    if (!key) return failed;
    const bool closed = Take("</arg_key>") == Match::kYes;
    if (!closed && key->ends_with('\n')) key->pop_back();
    key_ = *key;
    state_ = State::kBeforeValue;
    return true;
  }

  bool BeforeValue() override {
    if (!SkipSpace() || CutInTag({"<arg_value>"})) {
      if (is_cut()) CutArgument("");
      return false;
    }
    const Match value = Take("<arg_value>");
    if (value == Match::kUnknown) return false;
    if (value == Match::kNo) return Fail();
    BeginValue();
    return true;
  }

  /// Returns the value. Without a closing tag, a line break at the value's end does not belong to the value.
  std::string_view Separated(std::string_view value, bool closed) const override {
    if (!closed && value.ends_with('\n')) value.remove_suffix(1);
    return value;
  }

  Match FollowsValue(size_t at) const override {
    const Match key = NamesParameter("<arg_key>", "</arg_key>", at);
    return key == Match::kNo ? StandsBefore("</tool_call>", "<tool_call>", at) : key;
  }

  bool End() override {
    state_ = State::kText;
    return true;
  }
};

}  // namespace

std::unique_ptr<AnswerParser> MakeGlmParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<GlmParser>(std::move(tools));
}

}  // namespace quire
