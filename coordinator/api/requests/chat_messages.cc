#include "coordinator/api/requests/chat_messages.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr size_t kMaxMessages = 1024;
constexpr size_t kMaxIdBytes = 256;

[[noreturn]] void RefuseMessage(const std::string& where, const std::string& reason) {
  throw ApiError(400, fmt::format("{} {}", where, reason), "messages");
}

bool Given(const Json& object, const char* name) { return object.contains(name) && !object[name].is_null(); }

const std::string& Text(const Json& object, const char* name, const std::string& where) {
  if (!Given(object, name) || !object[name].is_string())
    RefuseMessage(fmt::format("{}.{}", where, name), "must be a string");
  return object[name].get_ref<const std::string&>();
}

/// Joins a content's text parts; refuses other kinds of parts.
std::string ContentText(const Json& message, const std::string& where) {
  if (!Given(message, "content")) return "";
  const Json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) RefuseMessage(where + ".content", "must be a string or a list of parts");
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text") &&
                         part["text"].is_string();
    if (!is_text) RefuseMessage(where + ".content", "may hold text parts only; this server takes no images or audio");
    text += part["text"].get<std::string>();
  }
  return text;
}

/// Reads the calls of an earlier answer, with their members in the order in which templates expect them.
OrderedJson ReadCalls(const Json& calls, const std::string& where) {
  if (!calls.is_array() || calls.size() > kMaxTools)
    RefuseMessage(where, fmt::format("must be a list of at most {} calls", kMaxTools));
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const Json& call = calls[i];
    const std::string here = fmt::format("{}[{}]", where, i);
    if (!call.is_object() || !Given(call, "function") || !call["function"].is_object())
      RefuseMessage(here, "must be an object with a function");
    if (Given(call, "type") && call["type"] != "function") RefuseMessage(here + ".type", "must be function");
    const Json& function = call["function"];
    const std::string& arguments = Given(function, "arguments") ? Text(function, "arguments", here + ".function") : "";
    OrderedJson checked;
    if (Given(call, "id")) {
      if (Text(call, "id", here).size() > kMaxIdBytes) RefuseMessage(here + ".id", "is too long");
      checked["id"] = Text(call, "id", here);
    }
    const std::string& name = Text(function, "name", here + ".function");
    CheckCalledName(name, here + ".function.name");
    checked["type"] = "function";
    checked["function"] = {{"name", name}, {"arguments", arguments}};
    out.push_back(std::move(checked));
  }
  return out;
}

/// Reads the members besides role and content that templates may show. Refuses function_call, audio, and members that
/// belong to another role.
void ReadOtherMembers(const Json& message, const std::string& where, OrderedJson& checked) {
  for (const char* name : {"function_call", "audio"}) {
    if (Given(message, name) && message[name] != Json::array())
      RefuseMessage(fmt::format("{}.{}", where, name),
                    name == std::string_view("audio") ? "is not supported by this server; leave it out"
                                                      : "is not supported by this server; use tool_calls");
  }
  const std::string role = checked["role"].get<std::string>();
  if (Given(message, "name")) checked["name"] = Text(message, "name", where);
  for (const char* name : {"reasoning_content", "reasoning"}) {
    if (!Given(message, name)) continue;
    const std::string& thoughts = Text(message, name, where);
    if (role != "assistant") RefuseMessage(fmt::format("{}.{}", where, name), "is for the role assistant");
    for (const char* known : {"reasoning_content", "reasoning", "thinking"}) checked[known] = thoughts;
  }
  if (Given(message, "tool_calls") && message["tool_calls"] != Json::array()) {
    if (role != "assistant") RefuseMessage(where + ".tool_calls", "is for the role assistant");
    checked["tool_calls"] = ReadCalls(message["tool_calls"], where + ".tool_calls");
    if (!Given(message, "content")) checked["content"] = nullptr;
  }
  if (Given(message, "tool_call_id")) {
    if (role != "tool") RefuseMessage(where + ".tool_call_id", "is for the role tool");
    checked["tool_call_id"] = Text(message, "tool_call_id", where);
  }
}

}  // namespace

void CheckCalledName(const std::string& name, const std::string& place) {
  if (name.size() <= kMaxToolNameBytes) return;
  throw ApiError(400, fmt::format("{} is longer than {} bytes", place, kMaxToolNameBytes),
                 place.substr(0, place.find_first_of(".[")));
}

OrderedJson ReadMessages(const Json* messages) {
  static const std::set<std::string> kRoles = {"system", "developer", "user", "assistant", "tool"};
  if (messages == nullptr) JsonFields::Refuse("messages", "is missing");
  if (!messages->is_array() || messages->empty())
    JsonFields::Refuse("messages", "must be a list of at least one message");
  if (messages->size() > kMaxMessages)
    JsonFields::Refuse("messages", fmt::format("takes at most {} messages", kMaxMessages));
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json& message = (*messages)[i];
    const std::string where = fmt::format("messages[{}]", i);
    const bool has_role = message.is_object() && message.contains("role") && message["role"].is_string();
    if (!has_role || !kRoles.contains(message["role"].get<std::string>()))
      RefuseMessage(where + ".role", "must be system, developer, user, assistant or tool");
    const auto role = message["role"].get<std::string>();
    OrderedJson checked = {{"role", role == "developer" ? "system" : role}, {"content", ContentText(message, where)}};
    ReadOtherMembers(message, where, checked);
    out.push_back(std::move(checked));
  }
  return out;
}

}  // namespace quire
