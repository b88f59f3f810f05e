#include "coordinator/text/answers/call_grammar.h"

#include <algorithm>
#include <utility>

#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/text/answers/answer_words.h"
#include "coordinator/text/answers/call_writer.h"
#include "coordinator/text/answers/tag_formats.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

/// Returns the client's own grammar as a format inside a larger structural tag.
OrderedJson FormatOf(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::kJson:
      return TagFormat("json_schema", {{"json_schema", true}});
    case GrammarSource::kJsonSchema:
      return TagFormat("json_schema", {{"json_schema", ParseExactJson(source.text)}});
    case GrammarSource::kRegex:
      return TagFormat("regex", {{"pattern", source.text}});
    case GrammarSource::kEbnf:
      return TagFormat("grammar", {{"grammar", source.text}});
    case GrammarSource::kStructuralTag: {
      const OrderedJson tag = ParseExactJson(source.text);
      return tag.is_object() && tag.contains("format") ? tag["format"] : OrderedJson::object();
    }
    case GrammarSource::kNone:
      break;
  }
  return TagFormat("any_text", OrderedJson::object());
}

GrammarSource TagOf(const OrderedJson& format) {
  return {GrammarSource::kStructuralTag, DumpExactJson({{"type", "structural_tag"}, {"format", format}})};
}

OrderedJson Blanks() { return RegexOf("[ \\n]{0,4}"); }

constexpr const char* kNextMessage = "<|end|><|start|>assistant";  // the text between the messages of a gpt-oss answer

/// Returns the format of a gpt-oss message's text.
OrderedJson HarmonyText(const TagBuilder& build) {
  return TextWithout(build.Spelled({"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"}));
}

/// Puts thoughts before the answer's format; shape.start says whether they are optional. For gpt-oss, `format` must
/// begin with the head of a message.
OrderedJson WithThoughts(const AnswerShape& shape, const TagBuilder& build, const OrderedJson& format) {
  const ReasoningMarks marks = MarksOf(shape.format.reasoning);
  if (shape.format.reasoning == ReasoningFormat::kHarmony) {
    const OrderedJson thoughts =
        build.Row({{"<|channel|>analysis<|message|>", HarmonyText(build)}, {kNextMessage, nullptr}});
    return SequenceOf({OptionalOf(thoughts), format});
  }
  if (marks.close.empty() || shape.start == ReasoningStart::kNone) return format;
  const std::string &open = marks.open.front(), &close = marks.close.front();
  const OrderedJson text = TextWithout({close});
  if (shape.start == ReasoningStart::kInside) return build.Row({{"", text}, {close, Blanks()}, {"", format}});
  const OrderedJson thoughts = build.Row({{open, text}, {close, Blanks()}});
  return SequenceOf({OptionalOf(thoughts), format});
}

/// Returns the format of an answer that follows the client's own grammar.
OrderedJson Words(const AnswerShape& shape, const TagBuilder& build, const GrammarSource& words) {
  const bool harmony = shape.format.reasoning == ReasoningFormat::kHarmony;
  return harmony ? build.Row({{"<|channel|>final<|message|>", FormatOf(words)}}) : FormatOf(words);
}

/// Removes `marker` from the front of `format`, which Calls() has returned. All alternatives of the format begin with
/// the marker.
void TakeFront(const std::string& marker, OrderedJson& format) {
  if (format["type"] == "or") {
    for (OrderedJson& one : format["elements"]) TakeFront(marker, one);
    return;
  }
  OrderedJson& elements = format["elements"];
  OrderedJson& front = elements.front();
  if (front["type"] == "token") {
    elements.erase(elements.begin());
  } else if (front["type"] == "const_string") {
    const std::string rest = front["value"].get<std::string>().substr(marker.size());
    if (rest.empty()) {
      elements.erase(elements.begin());
    } else {
      front["value"] = rest;
    }
  } else {
    TakeFront(marker, front);
  }
}

/// Returns the format of free text in which the marker is always followed by calls. end: the text or token format that
/// closes the calls.
OrderedJson Triggered(const TagBuilder& build, const ToolUse& use, const std::string& marker, const OrderedJson& calls,
                      const OrderedJson& end) {
  const bool is_token = build.IsToken(marker);
  const OrderedJson trigger = is_token ? OrderedJson(build.TokenOf(marker)) : OrderedJson(marker);
  const OrderedJson begin = is_token ? TagFormat("token", {{"token", trigger}}) : trigger;
  const OrderedJson tag = TagFormat("tag", {{"begin", begin}, {"content", calls}, {"end", end}});
  OrderedJson members = {{is_token ? "trigger_tokens" : "triggers", OrderedJson::array({trigger})},
                         {"tags", OrderedJson::array({tag})},
                         {"stop_after_first", !use.parallel}};
  return TagFormat(is_token ? "token_triggered_tags" : "triggered_tags", std::move(members));
}

/// Returns the format of free text with calls after a marker. If the format has no closing text after all calls, each
/// call has its own marker.
OrderedJson Marked(const CallConstraint& constraint, const CallWriter& writer) {
  const ToolUse& use = *constraint.shape.tools;
  const std::string marker = MarkersOf({constraint.shape.format.tools, ReasoningFormat::kNone}).front();
  OrderedJson calls = writer.Calls(use.parallel && writer.closes());
  TakeFront(marker, calls);
  OrderedJson end = "";
  if (writer.closes()) {
    OrderedJson& elements = calls["elements"];
    end = elements.back()["type"] == "token" ? elements.back() : elements.back()["value"];
    elements.erase(elements.size() - 1);
  }
  return Triggered(writer.build(), use, marker, calls, end);
}

/// Returns the format of gpt-oss's messages: any number of thoughts, comments and calls, and then the final answer or a
/// call.
OrderedJson Messages(const ToolUse& use, const CallWriter& writer) {
  const TagBuilder& build = writer.build();
  const OrderedJson text = HarmonyText(build), call = writer.Calls(false);
  std::vector<OrderedJson> others;
  for (const char* head : {"<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"})
    others.push_back(build.Row({{head, text}}));
  if (use.parallel) others.push_back(call);
  const OrderedJson last = AnyOf({build.Row({{"<|channel|>final<|message|>", text}}), call});
  return SequenceOf({StarOf(build.Row({{"", AnyOf(others)}, {kNextMessage, nullptr}})), last});
}

/// Returns the texts with which an answer's words must not begin, because thoughts or calls follow such a text.
std::vector<std::string> MarksAtBeginning(const AnswerShape& shape, const TagBuilder& build,
                                          std::vector<std::string> marks) {
  const ReasoningMarks thoughts = MarksOf(shape.format.reasoning);
  if (shape.start == ReasoningStart::kUndecided) marks.insert(marks.end(), thoughts.open.begin(), thoughts.open.end());
  return build.Spelled(marks);
}

/// Returns the format of an answer for `llama3_json`. If the answer begins with an object that has a call's keys and
/// names a tool, the whole answer consists of calls. Text after <|python_tag|> consists of calls, too.
OrderedJson JsonCallsOrWords(const CallConstraint& constraint, const CallWriter& writer) {
  const std::string tag = "<|python_tag|>";
  const TagBuilder& build = writer.build();
  const OrderedJson calls = writer.Calls(), blanks = RegexOf(kBlanksBefore);
  std::vector<std::string> marks = MarksAtBeginning(constraint.shape, build, {});
  OrderedJson words;
  if (build.IsToken(tag)) {
    words = SequenceOf({RegexOf(WordsBesideJsonCalls(writer.Names(), marks, "")), TextWithout({}),
                        OptionalOf(build.Row({{tag, calls}}))});
  } else {
    // If the tag is no token of the model, answers must not contain the tag. The answer's beginning then excludes the
    // tag's first byte, so marks that begin with this byte are left out.
    std::erase_if(marks, [&](const std::string& mark) { return mark.front() == tag.front(); });
    const std::string begin = WordsBesideJsonCalls(writer.Names(), marks, tag.substr(0, 1));
    words = RegexOf("(?:" + begin + ")" + TextWithoutMark(tag));
  }
  return AnyOf({SequenceOf({blanks, calls}), SequenceOf({blanks, build.Row({{tag, calls}})}), words, blanks});
}

/// Returns the format of an answer with calls for `pythonic`: the calls are a list that is the whole answer, perhaps
/// between two control tokens.
OrderedJson PythonCalls(const CallWriter& writer) {
  std::vector<OrderedJson> row = {writer.Calls()};
  const auto mark = [&](const char* text) { return OptionalOf(writer.build().Row({{text, nullptr}})); };
  if (writer.build().IsToken("<|python_start|>")) row.insert(row.begin(), mark("<|python_start|>"));
  if (writer.build().IsToken("<|python_end|>")) row.push_back(mark("<|python_end|>"));
  return SequenceOf(std::move(row));
}

OrderedJson PythonCallsOrWords(const CallConstraint& constraint, const CallWriter& writer) {
  const OrderedJson blanks = RegexOf(kBlanksBefore);
  const auto marks = MarksAtBeginning(constraint.shape, writer.build(), {"<|python_start|>", "<|python_tag|>"});
  const OrderedJson words = SequenceOf({RegexOf(WordsBesidePythonCalls(writer.Names(), marks)), TextWithout({})});
  return AnyOf({SequenceOf({blanks, PythonCalls(writer)}), words, blanks});
}

/// Returns the format of an answer that may hold tool calls or text alone, as the model decides.
OrderedJson CallsOrWords(const CallConstraint& constraint, const CallWriter& writer) {
  const AnswerShape& shape = constraint.shape;
  switch (shape.format.tools) {
    case ToolFormat::kHarmony:
      return Messages(*shape.tools, writer);
    case ToolFormat::kLlama3Json:
      return WithThoughts(shape, writer.build(), JsonCallsOrWords(constraint, writer));
    case ToolFormat::kPythonic:
      return WithThoughts(shape, writer.build(), PythonCallsOrWords(constraint, writer));
    default:
      return Marked(constraint, writer);
  }
}

}  // namespace

GrammarSource CallGrammar(const CallConstraint& constraint) {
  const CallWriter writer(constraint);
  const AnswerShape& shape = constraint.shape;
  const ToolChoice::Mode mode = shape.tools->choice.mode;
  const bool must = mode == ToolChoice::kRequired || mode == ToolChoice::kNamed;
  if (!must && !constraint.words) return TagOf(CallsOrWords(constraint, writer));
  const bool pythonic = shape.format.tools == ToolFormat::kPythonic;
  std::vector<OrderedJson> ways = {pythonic ? PythonCalls(writer) : writer.Calls()};
  if (!must) ways.insert(ways.begin(), Words(shape, writer.build(), constraint.words));
  return TagOf(WithThoughts(shape, writer.build(), AnyOf(std::move(ways))));
}

GrammarSource AfterThoughts(const AnswerShape& shape, const std::map<std::string, TokenId>& control_tokens,
                            const GrammarSource& words) {
  const TagBuilder build(control_tokens);
  return TagOf(WithThoughts(shape, build, Words(shape, build, words)));
}

}  // namespace quire
