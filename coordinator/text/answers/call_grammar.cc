#include "coordinator/text/answers/call_grammar.h"

#include <algorithm>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/tool_prompt.h"

namespace quire {

namespace {

constexpr int kMaxWhitespace = 20;  // bytes in a row: indentation, and no endless run of blanks

OrderedJson Of(const char* type, OrderedJson members) {
  OrderedJson format = {{"type", type}};
  for (const auto& [name, value] : members.items()) format[name] = value;
  return format;
}

OrderedJson Sequence(std::vector<OrderedJson> elements) {
  return Of("sequence", {{"elements", OrderedJson(std::move(elements))}});
}
OrderedJson AnyOf(std::vector<OrderedJson> elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return Of("or", {{"elements", OrderedJson(std::move(elements))}});
}
/// Next to tags there may be a line break on either side, which no value has that its schema restricts.
OrderedJson Schema(const OrderedJson& schema, const char* style) {
  return Of("json_schema", {{"json_schema", schema.is_null() ? OrderedJson{{"type", "object"}} : schema},
                            {"style", style},
                            {"max_whitespace_cnt", style == std::string_view("json") ? kMaxWhitespace : 1}});
}

/// Builds xgrammar's structural tags for one answer.
class Builder {
 public:
  explicit Builder(const std::map<std::string, TokenId>& control_tokens) : control_tokens_(control_tokens) {}

  /// A text in which control tokens are themselves.
  void Literal(std::string_view text, std::vector<OrderedJson>& out) const {
    std::string plain;
    const auto flush = [&] {
      if (!plain.empty()) out.push_back(Of("const_string", {{"value", std::exchange(plain, {})}}));
    };
    while (!text.empty()) {
      const auto token =
          std::ranges::find_if(control_tokens_, [&](const auto& entry) { return text.starts_with(entry.first); });
      if (token == control_tokens_.end()) {
        plain += text.front();
        text.remove_prefix(1);
        continue;
      }
      flush();
      out.push_back(Of("token", {{"token", token->second}}));
      text.remove_prefix(token->first.size());
    }
    flush();
  }

  /// Texts and formats one after another.
  OrderedJson Row(std::initializer_list<std::pair<std::string, OrderedJson>> parts) const {
    std::vector<OrderedJson> elements;
    for (const auto& [text, format] : parts) {
      Literal(text, elements);
      if (!format.is_null()) elements.push_back(format);
    }
    return Sequence(std::move(elements));
  }

  const std::map<std::string, TokenId>& control_tokens() const { return control_tokens_; }

 private:
  const std::map<std::string, TokenId>& control_tokens_;
};

/// How a format writes all the calls of an answer.
struct Writing {
  std::string begin, between, end;
};

Writing WritingOf(ToolFormat format, bool mistral_names) {
  switch (format) {
    case ToolFormat::kDeepSeekV3:
      return {"<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeekV31:
      return {"<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>"};
    case ToolFormat::kGlm45:
    case ToolFormat::kQwen3Coder:
      return {"", "\n", ""};
    case ToolFormat::kMistral:
      if (mistral_names) return {};
      [[fallthrough]];
    default: {
      const auto form = JsonCallFormOf(format);
      return form ? Writing{form->begin, form->between, form->end} : Writing{};
    }
  }
}

class CallWriter {
 public:
  explicit CallWriter(const CallConstraint& constraint)
      : constraint_(constraint),
        build_(constraint.control_tokens),
        format_(constraint.shape.format.tools),
        mistral_names_(constraint.control_tokens.contains("[ARGS]")) {}

  /// One call of tool i.
  OrderedJson Call(size_t i) const {
    const std::string& name = constraint_.shape.tools->tools[i].name;
    const OrderedJson& schema = constraint_.schemas[i];
    const OrderedJson arguments = Schema(schema, "json");
    switch (format_) {
      case ToolFormat::kDeepSeekV3:
        return build_.Row({{"<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n", arguments},
                           {"\n```<｜tool▁call▁end｜>", nullptr}});
      case ToolFormat::kDeepSeekV31:
        return build_.Row(
            {{"<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>", arguments}, {"<｜tool▁call▁end｜>", nullptr}});
      case ToolFormat::kGlm45:
        return build_.Row({{"<tool_call>" + name + "\n", Schema(schema, "glm_xml")}, {"\n</tool_call>", nullptr}});
      case ToolFormat::kQwen3Coder:
        return build_.Row({{"<tool_call>\n<function=" + name + ">\n", Schema(schema, "qwen_xml")},
                           {"\n</function>\n</tool_call>", nullptr}});
      case ToolFormat::kHarmony:
        return build_.Row(
            {{"<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>", arguments}});
      case ToolFormat::kMistral:
        if (mistral_names_) return build_.Row({{"[TOOL_CALLS]" + name + "[ARGS]", arguments}});
        [[fallthrough]];
      default: {
        const JsonCallForm form = *JsonCallFormOf(format_);
        return build_.Row({{form.open + "{\"name\": \"" + name + "\", \"" + form.arguments + "\": ", arguments},
                           {"}" + form.close, nullptr}});
      }
    }
  }

  /// One call, or more of them, of those tools that may be called.
  OrderedJson Calls(bool several) const {
    const ToolUse& use = *constraint_.shape.tools;
    std::vector<OrderedJson> calls;
    for (size_t i = 0; i < use.tools.size(); ++i) {
      if (use.choice.mode != ToolChoice::kNamed || use.choice.name == use.tools[i].name) calls.push_back(Call(i));
    }
    const OrderedJson call = AnyOf(std::move(calls));
    const Writing writing = WritingOf(format_, mistral_names_);
    const OrderedJson more = several ? Of("star", {{"content", build_.Row({{writing.between, call}})}}) : OrderedJson();
    return build_.Row({{writing.begin, call}, {"", more}, {writing.end, nullptr}});
  }
  OrderedJson Calls() const {
    const ToolUse& use = *constraint_.shape.tools;
    return Calls(use.parallel && use.choice.mode != ToolChoice::kNamed && format_ != ToolFormat::kHarmony);
  }
  /// The format has something behind all calls.
  bool closes() const { return !WritingOf(format_, mistral_names_).end.empty(); }

 private:
  const CallConstraint& constraint_;
  Builder build_;
  ToolFormat format_;
  bool mistral_names_;  // the model has a token between a function's name and its arguments
};

/// Client's own form of an answer, as a part of a larger one.
OrderedJson FormatOf(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::kJson:
      return Of("json_schema", {{"json_schema", true}});
    case GrammarSource::kJsonSchema:
      return Of("json_schema", {{"json_schema", OrderedJson::parse(source.text)}});
    case GrammarSource::kRegex:
      return Of("regex", {{"pattern", source.text}});
    case GrammarSource::kEbnf:
      return Of("grammar", {{"grammar", source.text}});
    case GrammarSource::kStructuralTag: {
      const OrderedJson tag = OrderedJson::parse(source.text, nullptr, false);
      return tag.is_object() && tag.contains("format") ? tag["format"] : OrderedJson::object();
    }
    case GrammarSource::kNone:
      break;
  }
  return Of("any_text", OrderedJson::object());
}

GrammarSource TagOf(const OrderedJson& format) {
  return {GrammarSource::kStructuralTag, OrderedJson{{"type", "structural_tag"}, {"format", format}}.dump()};
}

OrderedJson Blanks() { return Of("regex", {{"pattern", "[ \\n]{0,4}"}}); }

/// What may, or has to, come before: thoughts.
OrderedJson WithThoughts(const AnswerShape& shape, const Builder& build, const OrderedJson& format) {
  const bool harmony = shape.format.reasoning == ReasoningFormat::kHarmony;
  const ReasoningMarks marks = MarksOf(shape.format.reasoning);
  if (harmony) {
    const OrderedJson text = Of("any_text", {{"excludes", OrderedJson::array({"<|end|>"})}});
    const OrderedJson thoughts =
        build.Row({{"<|channel|>analysis<|message|>", text}, {"<|end|><|start|>assistant", nullptr}});
    return Sequence({Of("optional", {{"content", thoughts}}), format});
  }
  if (marks.close.empty() || shape.start == ReasoningStart::kNone) return format;
  const std::string &open = marks.open.front(), &close = marks.close.front();
  const OrderedJson text = Of("any_text", {{"excludes", OrderedJson::array({close})}});
  if (shape.start == ReasoningStart::kInside) return build.Row({{"", text}, {close, Blanks()}, {"", format}});
  const OrderedJson thoughts = build.Row({{open, text}, {close, Blanks()}});
  return Sequence({Of("optional", {{"content", thoughts}}), format});
}

/// Takes the marker away from the front of a format of Calls(), which begins with it in every alternative.
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

/// Free text in which what opens calls is followed by calls. Where a format does not close its calls as a whole, each
/// is opened on its own.
OrderedJson Triggered(const CallConstraint& constraint, const CallWriter& writer) {
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
  const auto token = constraint.control_tokens.find(marker);
  const bool is_token = token != constraint.control_tokens.end();
  const OrderedJson begin = is_token ? Of("token", {{"token", token->second}}) : OrderedJson(marker);
  const OrderedJson tag = Of("tag", {{"begin", begin}, {"content", calls}, {"end", end}});
  OrderedJson members = {{is_token ? "trigger_tokens" : "triggers",
                          OrderedJson::array({is_token ? OrderedJson(token->second) : OrderedJson(marker)})},
                         {"tags", OrderedJson::array({tag})},
                         {"stop_after_first", !use.parallel}};
  return Of(is_token ? "token_triggered_tags" : "triggered_tags", std::move(members));
}

}  // namespace

bool CanRequireCalls(ToolFormat format) { return format != ToolFormat::kNone && format != ToolFormat::kPythonic; }

bool CanTriggerCalls(ToolFormat format) {
  return CanRequireCalls(format) && format != ToolFormat::kHarmony && format != ToolFormat::kLlama3Json;
}

GrammarSource CallGrammar(const CallConstraint& constraint) {
  const CallWriter writer(constraint);
  const ToolChoice::Mode mode = constraint.shape.tools->choice.mode;
  const bool must = mode == ToolChoice::kRequired || mode == ToolChoice::kNamed;
  const Builder build(constraint.control_tokens);
  if (must) return TagOf(WithThoughts(constraint.shape, build, writer.Calls()));
  if (constraint.words)
    return TagOf(WithThoughts(constraint.shape, build, AnyOf({FormatOf(constraint.words), writer.Calls()})));
  return TagOf(Triggered(constraint, writer));
}

GrammarSource AfterThoughts(const AnswerShape& shape, const std::map<std::string, TokenId>& control_tokens,
                            const GrammarSource& words) {
  return TagOf(WithThoughts(shape, Builder(control_tokens), FormatOf(words)));
}

}  // namespace quire
