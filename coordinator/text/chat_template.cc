#include "coordinator/text/chat_template.h"

#include <cctype>
#include <ctime>

#include "comm/base/error.h"
#include "coordinator/text/jinja/interpreter.h"

namespace quire {

namespace {

constexpr size_t kMaxTemplateFileBytes = 256 << 10;
constexpr size_t kMaxArgumentDepth = 32;

/// strftime_now(format): today, in UTC; templates print the date with it.
jinja::Value StrftimeNow(const jinja::List& arguments, const jinja::NamedArguments&) {
  if (arguments.empty() || arguments[0].AsText() == nullptr) Fail("strftime_now needs a format");
  const std::string& format = arguments[0].AsText()->text;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[256];
  const size_t length = std::strftime(text, sizeof(text), format.c_str(), &parts);
  return jinja::Value::Trusted({text, length});
}

/// Arguments of a call as an object; a text that is none stays as it is: it was some model's mistake, and is shown.
void ParseArguments(OrderedJson& call) {
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return;
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || !arguments->is_string()) return;
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *arguments = OrderedJson::object();
    return;
  }
  try {
    if (ParseJson(text, "arguments", {.max_depth = kMaxArgumentDepth}).is_object())
      *arguments = OrderedJson::parse(text);
  } catch (const Error&) {
  }
}

/// The messages as a template with these traits wants them.
OrderedJson Adapted(const OrderedJson& messages, const ChatTemplate::Traits& traits) {
  OrderedJson out = messages;
  for (OrderedJson& message : out) {
    const auto calls = message.find("tool_calls");
    if (!traits.null_content && message.contains("content") && message["content"].is_null()) message["content"] = "";
    if (calls == message.end() || !calls->is_array()) continue;
    for (OrderedJson& call : *calls) {
      if (!traits.text_arguments) ParseArguments(call);
    }
  }
  return out;
}

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(const TokenizerData& tokenizer)
    : parsed_(std::make_unique<Parsed>()),
      source_(tokenizer.chat_template),
      bos_token_(tokenizer.bos_token),
      eos_token_(tokenizer.eos_token),
      pad_token_(tokenizer.pad_token) {
  if (source_.empty()) Fail("the model has no chat template; use /v1/completions");
  if (source_.size() > kMaxTemplateFileBytes)
    Fail("the model's chat template is larger than {} bytes", kMaxTemplateFileBytes);
  parsed_->body = jinja::Parse(source_);
  traits_ = FindTraits();
}

ChatTemplate::~ChatTemplate() = default;

MarkedText ChatTemplate::RenderAsItIs(const Conversation& conversation, std::function<bool()> cancelled) const {
  const auto of_user = [](const OrderedJson& json) { return jinja::Value::FromJson(json, MarkedText::kFromUser); };
  std::map<std::string, jinja::Value> variables;
  for (const auto& [name, value] : conversation.variables.items()) variables[name] = of_user(value);
  variables["messages"] = of_user(conversation.messages);
  variables["tools"] = of_user(conversation.tools);
  variables["documents"] = of_user(conversation.documents);
  variables["add_generation_prompt"] = jinja::Value(conversation.add_generation_prompt);
  variables["bos_token"] = jinja::Value::Trusted(bos_token_);
  variables["eos_token"] = jinja::Value::Trusted(eos_token_);
  variables["pad_token"] = jinja::Value::Trusted(pad_token_);
  variables["strftime_now"] = jinja::Value(jinja::Function(StrftimeNow));
  jinja::Limits limits;
  limits.cancelled = std::move(cancelled);
  return jinja::Render(parsed_->body, variables, limits);
}

MarkedText ChatTemplate::Render(const Conversation& conversation, std::function<bool()> cancelled) const {
  Conversation adapted = conversation;
  adapted.messages = Adapted(conversation.messages, traits_);
  return RenderAsItIs(adapted, std::move(cancelled));
}

MarkedText ChatTemplate::Render(const Json& messages, bool add_generation_prompt,
                                std::function<bool()> cancelled) const {
  Conversation conversation;
  conversation.messages = messages;
  conversation.add_generation_prompt = add_generation_prompt;
  return Render(conversation, std::move(cancelled));
}

bool ChatTemplate::Names(std::string_view name) const {
  for (size_t at = source_.find(name); at != std::string::npos; at = source_.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !IsWordCharacter(source_[at - 1]);
    if (begins && (end == source_.size() || !IsWordCharacter(source_[end]))) return true;
  }
  return false;
}

ChatTemplate::Traits ChatTemplate::FindTraits() const {
  Traits found;
  if (!Names("tools") && !Names("tool_calls")) return found;
  const OrderedJson ask = {{"role", "user"}, {"content", "ask"}};
  const auto shows = [&](const Conversation& conversation, const Traits& traits, const char* what) {
    Conversation adapted = conversation;
    adapted.messages = Adapted(conversation.messages, traits);
    try {
      const std::string text = RenderAsItIs(adapted, {}).text;
      return text.find(what) != std::string::npos && text.find("'probe_key'") == std::string::npos;
    } catch (const Error&) {
      return false;
    }
  };
  Conversation offer;
  offer.messages = OrderedJson::array({ask});
  offer.tools = OrderedJson::parse(
      R"([{"type":"function","function":{"name":"probe_name","description":"d","parameters":{"type":"object",)"
      R"("properties":{"probe_key":{"type":"string","description":"d"}},"required":["probe_key"]}}}])");
  found.tools = shows(offer, found, "probe_name");
  Conversation called = offer;
  // Some templates insist on ids of nine letters.
  const OrderedJson call = {{"id", "abcdefghi"},
                            {"type", "function"},
                            {"function", {{"name", "probe_name"}, {"arguments", R"({"probe_key": "probe_value"})"}}}};
  called.messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", OrderedJson::array({call})}});
  called.messages.push_back(
      {{"role", "tool"}, {"tool_call_id", "abcdefghi"}, {"name", "probe_name"}, {"content", "done"}});
  for (const bool null_content : {false, true}) {
    for (const bool text_arguments : {false, true}) {
      Traits tried = found;
      tried.null_content = null_content;
      tried.text_arguments = text_arguments;
      tried.tool_calls = true;
      if (shows(called, tried, "probe_value")) return tried;
    }
  }
  return found;
}

}  // namespace quire
