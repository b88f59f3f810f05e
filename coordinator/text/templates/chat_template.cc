#include "coordinator/text/templates/chat_template.h"

#include <cctype>
#include <ctime>

#include "comm/base/error.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/templates/adapted_conversation.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxTemplateFileBytes = 256 << 10;

/// Implements strftime_now(format) for templates that print the date: returns the present time in UTC, in this format.
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
  traits_ = FindTraits([this](const Conversation& conversation) { return RenderAsItIs(conversation, {}).text; },
                       Names("tools") || Names("tool_calls"));
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

MarkedText ChatTemplate::Render(const Conversation& conversation, const RenderWatch& watch) const {
  return RenderAsItIs(AdaptedTo(traits_, conversation, watch.makes), watch.cancelled);
}

MarkedText ChatTemplate::Render(const Json& messages, bool add_generation_prompt, const RenderWatch& watch) const {
  Conversation conversation;
  conversation.messages = messages;
  conversation.add_generation_prompt = add_generation_prompt;
  return Render(conversation, watch);
}

bool ChatTemplate::Names(std::string_view name) const {
  for (size_t at = source_.find(name); at != std::string::npos; at = source_.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !IsWordCharacter(source_[at - 1]);
    if (begins && (end == source_.size() || !IsWordCharacter(source_[end]))) return true;
  }
  return false;
}

std::string ReadChatTemplate(const std::string& path) {
  TokenizerData data;
  data.chat_template = ReadTextFile(path, kMaxTemplateFileBytes);
  if (data.chat_template.empty()) Fail("{}: the file is empty; a chat template writes messages into a prompt", path);
  if (!IsValidUtf8(data.chat_template)) Fail("{}: the chat template is no text in UTF-8", path);
  try {
    ChatTemplate(data).Render(Json::array({{{"role", "user"}, {"content", "hi"}}}), true);
  } catch (const Error& error) {
    const std::string_view reason = error.what(), place = "template:";
    if (reason.starts_with(place)) Fail("{}:{}", path, reason.substr(place.size()));
    Fail("{}: {}", path, reason);
  }
  return std::move(data.chat_template);
}

}  // namespace quire
