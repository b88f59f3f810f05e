#include "coordinator/api/openai/chat_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/schema/schema_work.h"
#include "coordinator/api/openai/described_tools.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/structured_output.h"
#include "coordinator/api/requests/told_once.h"
#include "coordinator/text/answers/call_grammar.h"
#include "coordinator/text/answers/python_call.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/typed_values.h"

namespace quire {

namespace {

bool HasCalls(const OrderedJson& messages) {
  return std::ranges::any_of(messages, [](const OrderedJson& message) { return message.contains("tool_calls"); });
}

/// Returns the parts of the tools that parsers need until the answer's end: the names, and the schemas only for formats
/// that write values without types.
ToolUse WhatParsersRead(const ToolUse& use, ToolFormat format) {
  const bool typed = HasBareValues(format);
  ToolUse out{{}, use.choice, use.parallel};
  const auto types = typed ? std::make_shared<ParameterTypes>() : nullptr;
  for (const Tool& tool : use.tools)
    out.tools.push_back({tool.name, nullptr, typed ? tool.parameters : OrderedJson(), tool.strict, types});
  return out;
}

/// Returns the bytes of a JSON tree. Counts one allocation for the values of each object or list, and one for each text
/// that does not fit into its string object.
int64_t TreeBytes(const OrderedJson& tree) {
  constexpr int64_t kAllocation = 16, kText = 32;
  const auto text_bytes = [](const std::string& text) {
    return kText + (text.size() > 15 ? kAllocation + static_cast<int64_t>(text.capacity()) : 0);
  };
  int64_t bytes = sizeof(OrderedJson);
  if (const auto* text = tree.get_ptr<const OrderedJson::string_t*>()) bytes += kAllocation + text_bytes(*text);
  if (!tree.is_structured()) return bytes;
  bytes += 2 * kAllocation;
  for (const auto& [key, value] : tree.items()) bytes += (tree.is_object() ? text_bytes(key) : 0) + TreeBytes(value);
  return bytes;
}

/// True if the call asks for thoughts: by a budget of thought tokens, or by a template variable that switches thinking
/// on.
bool AsksForThoughts(const GenerateCall& call) {
  if (call.sampling.thoughts.tokens > 0) return true;
  const OrderedJson& variables = call.conversation.variables;
  if (!variables.is_object()) return false;
  const auto is = [&](const char* name, const OrderedJson& value) {
    return variables.contains(name) && variables[name] == value;
  };
  return is("enable_thinking", true) || is("thinking", true) ||
         (variables.contains("reasoning_effort") && !is("reasoning_effort", "none"));
}

/// True when the variable `name`, false or true, changes the rendered prompt.
bool ReadsFlag(const ChatTemplate& chat, const char* name) {
  if (!chat.Names(name)) return false;
  Conversation asked;
  asked.messages = OrderedJson::array({OrderedJson{{"role", "user"}, {"content", "ask"}}});
  std::string texts[2];
  try {
    for (const bool flag : {false, true}) {
      asked.variables = OrderedJson{{name, flag}};
      texts[flag ? 1 : 0] = chat.Render(asked, {}).text;
    }
  } catch (const Error&) {
    return false;
  }
  return texts[0] != texts[1];
}

/// True when the tokens begin with an added token. An ordinary token would not do, because other tokens could spell its
/// text, too.
bool BeginsWithAddedToken(const std::vector<TokenId>& tokens, const Tokenizer& tokenizer) {
  return !tokens.empty() &&
         std::ranges::find(tokenizer.data().added, tokens.front(), &AddedToken::id) != tokenizer.data().added.end();
}

}  // namespace

ChatFit::ChatFit(const ChatTemplate& chat, const Tokenizer& tokenizer, AnswerFormat format)
    : chat_(chat), format_(format), reads_thinking_(ReadsFlag(chat, "thinking")) {
  const std::vector<std::string> markers = MarkersOf(format);
  auto shown = std::make_shared<std::vector<TokenId>>();
  for (const AddedToken& token : tokenizer.data().added) {
    if (!token.special || std::ranges::find(markers, token.text) == markers.end()) continue;
    control_tokens_.emplace(token.text, token.id);
    shown->push_back(token.id);
  }
  shown_tokens_ = std::move(shown);
  if (const auto bounds = BoundsOf(format.reasoning)) {
    std::vector<TokenId> open = tokenizer.EncodePrompt(bounds->open, false);
    std::vector<TokenId> close = tokenizer.EncodePrompt(bounds->close, false);
    if (BeginsWithAddedToken(open, tokenizer) && BeginsWithAddedToken(close, tokenizer)) {
      thought_limit_.open = std::move(open);
      thought_limit_.close = std::move(close);
    }
  }
}

void ChatFit::FitConversation(GenerateCall& call, TextGrowth& growth) const {
  FitVariables(call);
  const TemplateTraits& traits = chat_.traits();
  const bool written_out = is_generic() || !traits.tool_calls;
  if (written_out && (is_generic() || !traits.tool_results)) WriteOutResults(call.conversation, growth);
  if (written_out && HasCalls(call.conversation.messages)) FitCalls(call.conversation, growth);
  if (call.tools.active()) FitTools(call);
}

void ChatFit::FitVariables(GenerateCall& call) const {
  Conversation& conversation = call.conversation;
  if (!conversation.documents.is_null() && !chat_.Names("documents"))
    JsonFields::Refuse("documents", "are not read by this model's chat template; put them into a message");
  OrderedJson variables = std::move(conversation.variables);
  conversation.variables = nullptr;
  for (const auto& [name, value] : variables.items()) {
    if (chat_.Names(name)) {
      conversation.variables[name] = value;
      continue;
    }
    // Some templates read `thinking` instead of `enable_thinking`.
    if (name == "enable_thinking" && reads_thinking_) {
      conversation.variables["thinking"] = value;
      continue;
    }
    const bool thinks_anyway =
        name == "enable_thinking" && value == true && format_.reasoning != ReasoningFormat::kNone;
    if (thinks_anyway || std::ranges::find(call.hints, name) != call.hints.end()) continue;
    const bool off = (name == "enable_thinking" || name == "thinking") && value == false;
    const bool no_effort = name == "reasoning_effort" && value == "none";
    if ((off || no_effort) && chat_.Names("enable_thinking")) conversation.variables["enable_thinking"] = false;
    if (off || no_effort) continue;
    // If the template does not read the effort, the effort is ignored, and the model answers as usual.
    if (name == "reasoning_effort") {
      TellOnce("field reasoning_effort",
               "reasoning_effort is passed over: this model's chat template does not read it");
      continue;
    }
    const bool top = name == "enable_thinking";
    JsonFields::Refuse(
        top ? name.c_str() : "chat_template_kwargs",
        fmt::format(
            "{}is not read by this model's chat template; leave it out, or serve a model or a template that reads it",
            top ? "" : name.substr(0, 100) + " "));
  }
}

void ChatFit::FitTools(GenerateCall& call) const {
  if (format_.tools == ToolFormat::kNone) {
    JsonFields::Refuse("tools",
                       chat_.traits().tools
                           ? "cannot be used: how this model writes calls is not known; --tool-call-parser says it, "
                             "generic tells the model a form"
                           : "cannot be used: this model's chat template does not show tools to it; with "
                             "--tool-call-parser generic the system message does");
  }
  if (chat_.traits().tools && !is_generic()) return;
  const auto form = JsonCallFormOf(format_.tools);
  if (!form) {
    JsonFields::Refuse("tools", fmt::format("cannot be used: this model's chat template does not show tools to it, and "
                                            "calls in the form {} have no description; with --tool-call-parser generic "
                                            "the system message describes tools",
                                            NameOf(format_.tools)));
  }
  DescribeTools(*form, chat_.traits(), call.conversation);
}

/// Writes earlier calls into the content, for a template that ignores tool_calls. Throws ApiError if this program
/// cannot write calls in the model's format.
void ChatFit::FitCalls(Conversation& conversation, TextGrowth& growth) const {
  if (!WriteOutCalls(format_.tools, conversation, growth))
    JsonFields::Refuse("messages",
                       "have tool_calls, which this model's chat template does not show to it; send them as content");
}

void ChatFit::ShapeAnswer(std::string_view prompt, GenerateCall& call) const {
  AnswerShape& shape = call.shape;
  shape.format.reasoning = format_.reasoning;
  shape.start = StartAfter(format_.reasoning, prompt);
  if (call.tools.active()) {
    shape.format.tools = format_.tools;
    shape.tools = std::make_shared<const ToolUse>(WhatParsersRead(call.tools, format_.tools));
    for (const Tool& tool : shape.tools->tools)
      call.tools_bytes += static_cast<int64_t>(sizeof(Tool) + tool.name.size()) + TreeBytes(tool.parameters);
  }
  if (!shape.is_plain()) call.shown_tokens = shown_tokens_;
  Constrain(call);
  LimitThoughts(call);
  if (!call.detokenize) shape = AnswerShape();  // without text nothing can be parsed
}

void ChatFit::Constrain(GenerateCall& call) const {
  const ToolUse& use = call.tools;
  GrammarSource& grammar = call.sampling.grammar;
  if (!use.active()) {
    const ReasoningStart start = call.shape.start;
    const bool thinks =
        start == ReasoningStart::kInside || (start == ReasoningStart::kUndecided && AsksForThoughts(call));
    if (grammar && (thinks || format_.reasoning == ReasoningFormat::kHarmony))
      grammar = AfterThoughts(call.shape, control_tokens_, grammar);
    return;
  }
  const bool must = use.choice.mode == ToolChoice::kRequired || use.choice.mode == ToolChoice::kNamed;
  const bool strict = std::ranges::any_of(use.tools, &Tool::strict);
  if (!must && !grammar && !strict && use.parallel) return;
  // An answer that must be a call has no text that a response_format could constrain.
  if (must && call.grammar_field.starts_with("response_format")) grammar = {};
  const char* field = must ? "tool_choice" : grammar ? call.grammar_field.c_str() : "tools";
  if (must && grammar)
    JsonFields::Refuse("tool_choice", fmt::format("cannot be combined with {}; leave out one", call.grammar_field));
  if (call.beams) JsonFields::Refuse(field, "cannot be combined with use_beam_search; leave out one");
  if (call.ignore_eos) JsonFields::Refuse(field, "cannot be combined with ignore_eos; leave out one");
  if (call.sampling.min_tokens > 0) JsonFields::Refuse(field, "cannot be combined with min_tokens; leave out one");
  const SchemaWork work(kSchemaWork);  // bounds the work on the schemas of all tools together
  std::vector<OrderedJson> schemas(use.tools.size());
  for (size_t i = 0; i < use.tools.size(); ++i) {
    const Tool& tool = use.tools[i];
    const bool kept = tool.strict || (must && (use.choice.mode != ToolChoice::kNamed || use.choice.name == tool.name));
    if (!kept || tool.parameters.is_null()) continue;
    OrderedJson schema = tool.parameters;
    schema["type"] = "object";
    const std::string where = fmt::format("tools[{}].function.parameters", i);
    schemas[i] = ParseExactJson(
        SchemaGrammar(schema, where, tool.strict ? SchemaPromise::kExact : SchemaPromise::kAsFarAs).text);
    if (!HasNamedArguments(format_.tools)) continue;
    const std::string why = WhyNoPythonCall(schemas[i]);
    if (!why.empty() && tool.strict) JsonFields::Refuse(where.c_str(), why);
    if (why.empty()) continue;
    TellOnce("call " + why, fmt::format("{} is passed over: it {} (said once for each reason)", where, why));
    schemas[i] = nullptr;
  }
  grammar = CallGrammar({call.shape, schemas, control_tokens_, grammar});
  if (grammar.text.size() > kMaxGrammarBytes)
    JsonFields::Refuse(field,
                       fmt::format("with these tools comes to a grammar of {} bytes, at most {}; offer fewer tools",
                                   grammar.text.size(), kMaxGrammarBytes));
  call.grammar_field = field;
}

void ChatFit::LimitThoughts(GenerateCall& call) const {
  ThoughtLimit& limit = call.sampling.thoughts;
  if (limit.tokens < 0) return;
  if (thought_limit_.close.empty()) {
    const bool unknown = format_.reasoning == ReasoningFormat::kNone;
    JsonFields::Refuse(
        "thinking_token_budget",
        unknown ? "cannot be kept to: --reasoning-parser must say how this model sets thoughts apart"
                : "cannot be kept to: this model has no tokens for where thoughts begin and end; leave it out, "
                  "and use max_tokens");
  }
  // The limit ends thoughts by forcing the token that ends them. For gpt-oss this token also begins the final message,
  // which an answer with a required call must not have.
  const ToolChoice::Mode mode = call.tools.choice.mode;
  const bool must = call.tools.active() && (mode == ToolChoice::kRequired || mode == ToolChoice::kNamed);
  if (must && format_.reasoning == ReasoningFormat::kHarmony)
    JsonFields::Refuse("thinking_token_budget",
                       fmt::format("cannot be combined with {}; leave out one", call.grammar_field));
  limit.open = thought_limit_.open;
  limit.close = thought_limit_.close;
  limit.begun = call.shape.start == ReasoningStart::kInside;
  if (call.shape.start == ReasoningStart::kNone) limit = ThoughtLimit();
}

}  // namespace quire
