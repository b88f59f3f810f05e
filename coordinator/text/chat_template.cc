#include "coordinator/text/chat_template.h"

#include <ctime>

#include "comm/error.h"
#include "coordinator/text/jinja/interpreter.h"

namespace quire {

namespace {

constexpr size_t kMaxTemplateBytes = 256 << 10;

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

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(const TokenizerData& tokenizer)
    : parsed_(std::make_unique<Parsed>()),
      bos_token_(tokenizer.bos_token),
      eos_token_(tokenizer.eos_token),
      pad_token_(tokenizer.pad_token) {
  if (tokenizer.chat_template.empty()) Fail("the model has no chat template; use /v1/completions");
  if (tokenizer.chat_template.size() > kMaxTemplateBytes)
    Fail("the model's chat template is larger than {} bytes", kMaxTemplateBytes);
  parsed_->body = jinja::Parse(tokenizer.chat_template);
}

ChatTemplate::~ChatTemplate() = default;

MarkedText ChatTemplate::Render(const Json& messages, bool add_generation_prompt,
                                std::function<bool()> cancelled) const {
  std::map<std::string, jinja::Value> variables;
  variables["messages"] = jinja::Value::FromJson(messages, MarkedText::kFromUser);
  variables["add_generation_prompt"] = jinja::Value(add_generation_prompt);
  variables["bos_token"] = jinja::Value::Trusted(bos_token_);
  variables["eos_token"] = jinja::Value::Trusted(eos_token_);
  variables["pad_token"] = jinja::Value::Trusted(pad_token_);
  variables["strftime_now"] = jinja::Value(jinja::Function(StrftimeNow));
  jinja::Limits limits;
  limits.cancelled = std::move(cancelled);
  return jinja::Render(parsed_->body, variables, limits);
}

}  // namespace quire
