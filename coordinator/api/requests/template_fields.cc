#include "coordinator/api/requests/template_fields.h"

#include <fmt/format.h>

#include <set>

namespace quire {

namespace {

constexpr size_t kMaxVariables = 64;
constexpr size_t kMaxDocuments = 256;

/// True for names of template variables that chat_template_kwargs must not replace.
bool IsReserved(const std::string& name) {
  static const std::set<std::string> kReserved = {"messages",  "tools",     "documents", "add_generation_prompt",
                                                  "bos_token", "eos_token", "pad_token", "strftime_now",
                                                  "namespace", "range",     "dict",      "raise_exception"};
  return kReserved.contains(name);
}

void ReadVariables(const OrderedJson& variables, OrderedJson& out) {
  constexpr const char* kField = "chat_template_kwargs";
  if (!variables.is_object() || variables.size() > kMaxVariables)
    JsonFields::Refuse(kField, fmt::format("must be an object of at most {} members", kMaxVariables));
  for (const auto& [name, value] : variables.items()) {
    if (IsReserved(name)) JsonFields::Refuse(kField, fmt::format("may not set {}", name));
    out[name] = value;
  }
}

/// Reads `thinking` into the template's variable enable_thinking. If `thinking` is missing, reads `think` instead.
/// Clients send {"type": "enabled"} or {"type": "disabled"}, as in Anthropic's API, or true or false. "auto" leaves the
/// variable unset.
void ReadThinking(const JsonFields& fields, OrderedJson& variables) {
  const Json* thinking = fields.Find("thinking");
  const char* name = "thinking";
  if (thinking == nullptr) thinking = fields.Find("think"), name = "think";
  if (thinking == nullptr) return;
  const Json type = thinking->is_object() ? thinking->value("type", Json()) : *thinking;
  const bool on = type == "enabled" || type == "auto" || type == true, off = type == "disabled" || type == false;
  if (!on && !off)
    JsonFields::Refuse(name,
                       "must be {\"type\": \"enabled\"} or {\"type\": \"disabled\"}; a number of tokens is "
                       "thinking_token_budget");
  if (type != "auto") variables["enable_thinking"] = on;
}

}  // namespace

void ReadTemplateFields(const RequestBody& body, const JsonFields& fields, Conversation& conversation) {
  OrderedJson variables = OrderedJson::object();
  if (fields.Has("chat_template_kwargs")) ReadVariables(body.Exact()["chat_template_kwargs"], variables);
  if (const auto effort = fields.Text("reasoning_effort")) {
    static const std::set<std::string> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    if (!kEfforts.contains(*effort))
      JsonFields::Refuse("reasoning_effort", "must be none, minimal, low, medium, high, xhigh or max");
    variables["reasoning_effort"] = *effort;
  }
  ReadThinking(fields, variables);
  if (fields.Has("enable_thinking")) variables["enable_thinking"] = fields.Flag("enable_thinking", true);
  if (!variables.empty()) conversation.variables = std::move(variables);
  const Json* documents = fields.Find("documents");
  if (documents == nullptr || *documents == Json::array()) return;
  if (!documents->is_array() || documents->size() > kMaxDocuments)
    JsonFields::Refuse("documents", fmt::format("must be a list of at most {} objects", kMaxDocuments));
  for (const Json& document : *documents) {
    if (!document.is_object()) JsonFields::Refuse("documents", "must be a list of objects");
  }
  conversation.documents = body.Exact()["documents"];
}

}  // namespace quire
