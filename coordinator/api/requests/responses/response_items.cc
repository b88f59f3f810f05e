#include "coordinator/api/requests/responses/response_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/chat_messages.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/responses/sealed_text.h"
#include "coordinator/api/requests/told_once.h"

namespace quire {

namespace {

/// Returns the text of one part of a message. Throws ApiError for a part whose type is not one of the types of text.
std::string PartText(const JsonObject& part) {
  const std::string type = part.Text("type");
  if (type == "refusal") return part.Text("refusal");
  if (type != "input_text" && type != "output_text" && type != "text" && type != "summary_text")
    part.Refuse("type", "is " + type.substr(0, 50) +
                            "; only input_text, output_text and refusal are supported here: send the text");
  return part.Text("text");
}

/// Returns the text of one part of a tool's output. An image or a file becomes a note to the model, so that an agent
/// with a tool that returns images can continue.
std::string OutputText(const JsonObject& part) {
  const std::string type = part.Text("type");
  if (type != "input_image" && type != "input_file") return PartText(part);
  return fmt::format("[{} left out: this model reads text only]", type == "input_image" ? "an image" : "a file");
}

/// Members that every item may have, and that the model does not see.
constexpr std::string_view kOfItems[] = {"type", "id", "status", "internal_chat_message_metadata_passthrough",
                                         "created_by"};

void KnowItem(const JsonObject& item, std::initializer_list<std::string_view> own) {
  for (const auto& [name, value] : item.value().items()) {
    if (value.is_null() || IsIn(name, kOfItems) || IsIn(name, own)) continue;
    item.Refuse(name.substr(0, 100), "is not supported by this server; leave it out");
  }
}

/// A type of items that record calls of a provider's built-in tool. `name`: the tool's name; empty: the item has the
/// name. `arguments`: the item's members that become the call's arguments. `result`: the member with the tool's output;
/// empty: the item has no output.
struct BuiltIn {
  std::string_view type, name;
  std::vector<std::string_view> arguments;
  std::string_view result;
};

const std::vector<BuiltIn> kBuiltIns = {{"local_shell_call", "local_shell", {"action"}, ""},
                                        {"shell_call", "shell", {"action", "environment"}, ""},
                                        {"apply_patch_call", "apply_patch", {"operation"}, ""},
                                        {"tool_search_call", kToolSearch, {"arguments"}, ""},
                                        {"web_search_call", "web_search", {"action"}, "status"},
                                        {"file_search_call", "file_search", {"queries"}, "results"},
                                        {"code_interpreter_call", "code_interpreter", {"code"}, "outputs"},
                                        {"mcp_call", "", {"arguments"}, "output"}};
constexpr std::string_view kOutputs[] = {"function_call_output", "custom_tool_call_output", "local_shell_call_output",
                                         "shell_call_output", "apply_patch_call_output"};
constexpr std::string_view kSealedConversation =
    "holds an earlier conversation in a form that only the server that made it can read; send the items";
/// Types of items that cannot be read, each with the reason.
const std::map<std::string_view, std::string_view> kUnreadable = {
    {"compaction", kSealedConversation},
    {"context_compaction", kSealedConversation},
    {"compaction_trigger",
     "asks the server to sum the conversation up, which this one leaves to clients; Codex does it itself for a "
     "provider "
     "of another name than OpenAI"},
    {"image_generation_call", "is an image, and this server's model reads text only"},
    {"computer_call", "is about images of a screen, and this server's model reads text only"},
    {"computer_call_output", "is an image, and this server's model reads text only"}};

/// Returns the id of a call or of its output: `call_id`, or `id` if the item has no `call_id`. Throws ApiError when the
/// id is missing or empty.
std::string CallIdOf(const JsonObject& item) {
  std::string id = item.OptionalText("call_id").value_or(item.OptionalText("id").value_or(""));
  if (id.empty()) item.Refuse("call_id", "is missing");
  return id;
}

std::string RandomName() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}", entropy(), entropy());
}

std::string TextOf(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : DumpExactJson(value);
}

}  // namespace

ResponseItems::ResponseItems(OrderedJson earlier, size_t bytes, const FindKept& find, OfferedTools& tools)
    : messages_(std::move(earlier)), growth_("input", bytes), made_(RandomName()), find_(find), tools_(tools) {}

void ResponseItems::AddText(const std::string& text) {
  const OrderedJson message = {{"role", "user"}, {"content", text}};
  Add(JsonObject(message, "input"));
}

void ResponseItems::Add(const JsonObject& item) {
  const std::string type = item.OptionalText("type").value_or("message");
  const std::string made = fmt::format("{}{:x}", made_, items_.size());
  if (type != "item_reference") items_.push_back(FullInputItem(item.value(), made));
  if (type == "message" || type == "agent_message") return AddMessage(item);
  if (type == "function_call") return AddFunctionCall(item);
  if (type == "custom_tool_call") return AddCustomCall(item);
  if (IsIn(type, kOutputs)) return Output(item);
  if (type == "tool_search_output") return AddSearchOutput(item);
  if (type == "additional_tools") return (void)tools_.Add(item, "tools", true);
  if (type == "reasoning") return AddReasoning(item);
  if (type == "item_reference") return AddReference(item);
  if (AddBuiltIn(item, type)) return;
  if (type == "mcp_list_tools")
    return TellOnce("item mcp_list_tools",
                    "items of the type mcp_list_tools are passed over: this server runs no tools");
  const auto why = kUnreadable.find(type);
  item.Refuse("type", why != kUnreadable.end()
                          ? fmt::format("is {}: it {}", type, why->second)
                          : "is " + type.substr(0, 50) + ", which is not known here; leave it out");
}

OrderedJson& ResponseItems::Say(const std::string& role, std::string text) {
  growth_.Add(text.size());
  messages_.push_back({{"role", role}, {"content", std::move(text)}});
  if (role == "assistant" && !thoughts_.empty()) messages_.back()["reasoning_content"] = std::exchange(thoughts_, {});
  return messages_.back();
}

/// Adds a message. A message that one agent sent to another becomes a user message.
void ResponseItems::AddMessage(const JsonObject& item) {
  KnowItem(item, {"role", "content", "phase", "author", "recipient"});
  const bool of_agent = item.Has("author");
  const std::string role = of_agent ? "user" : item.Text("role");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    item.Refuse("role", "must be user, assistant, system or developer");
  Say(role, item.JoinedText("content", PartText));
}

void ResponseItems::Call(const std::string& id, const std::string& name, std::string arguments) {
  growth_.Add(name.size() + arguments.size());
  const bool goes_on = !messages_.empty() && messages_.back()["role"] == "assistant" && thoughts_.empty();
  OrderedJson& message = goes_on ? messages_.back() : Say("assistant", "");
  message["tool_calls"].push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

std::string ResponseItems::NameOfCall(const JsonObject& item, const char* name_space) const {
  std::string name = ShownToolName(item.OptionalText(name_space).value_or(""), item.Text("name"));
  CheckCalledName(name, item.Place("name"));
  return name;
}

void ResponseItems::AddFunctionCall(const JsonObject& item) {
  KnowItem(item, {"call_id", "name", "namespace", "arguments"});
  const std::string id = item.Text("call_id");
  Call(id, NameOfCall(item, "namespace"), item.Text("arguments"));
}

void ResponseItems::AddCustomCall(const JsonObject& item) {
  KnowItem(item, {"call_id", "name", "namespace", "input"});
  const std::string id = item.Text("call_id");
  Call(id, NameOfCall(item, "namespace"), DumpExactJson({{kCustomInput, item.Text("input")}}));
}

void ResponseItems::Output(const JsonObject& item) {
  KnowItem(item, {"call_id", "output", "max_output_length"});
  // The output of a shell call is a list of objects without "type".
  const OrderedJson* output = item.Find("output");
  const bool typed = output == nullptr || !output->is_array() || output->empty() ||
                     (output->front().is_object() && output->front().contains("type"));
  // Outputs of local_shell have the call's id in their own `id`.
  const std::string id = CallIdOf(item);
  Say("tool", typed ? item.JoinedText("output", OutputText) : DumpExactJson(*output))["tool_call_id"] = id;
}

/// Adds the tools that a search found, and adds a text with the names of the tools that the model may now call.
void ResponseItems::AddSearchOutput(const JsonObject& item) {
  KnowItem(item, {"call_id", "execution", "tools"});
  std::string found;
  for (const std::string& name : tools_.Add(item, "tools", true)) found += (found.empty() ? "" : ", ") + name;
  const std::string text = found.empty() ? "No tools were found." : "These tools can be called now: " + found;
  Say("tool", text)["tool_call_id"] = item.OptionalText("call_id").value_or("");
}

bool ResponseItems::AddBuiltIn(const JsonObject& item, const std::string& type) {
  const auto found = std::ranges::find(kBuiltIns, type, &BuiltIn::type);
  if (found == kBuiltIns.end()) return false;
  const std::string id = CallIdOf(item);
  const bool of_mcp = found->name.empty();
  const std::string name = of_mcp ? NameOfCall(item, "server_label") : std::string(found->name);
  OrderedJson arguments = OrderedJson::object();
  for (const std::string_view member : found->arguments) {
    if (const OrderedJson* value = item.Find(std::string(member).c_str())) arguments[std::string(member)] = *value;
  }
  // If the only argument is an object, its members become the arguments. The value of `arguments` may also be JSON
  // text.
  if (arguments.size() == 1 && (arguments.front().is_object() || found->arguments.front() == "arguments"))
    arguments = OrderedJson(arguments.front());
  Call(id, name, TextOf(arguments));
  if (found->result.empty()) return true;
  const OrderedJson* result = item.Find(std::string(found->result).c_str());
  if (result == nullptr) result = item.Find("error");
  Say("tool", result == nullptr ? "" : TextOf(*result))["tool_call_id"] = id;
  return true;
}

/// Adds thoughts to the assistant's next message. Thoughts of this server's models come back in `content`, or sealed in
/// `encrypted_content`. Thoughts that another server sealed cannot be opened, so their summary is used.
void ResponseItems::AddReasoning(const JsonObject& item) {
  KnowItem(item, {"summary", "content", "encrypted_content"});
  const auto sealed = item.OptionalText("encrypted_content");
  const auto add = [&](const char* list, std::string_view kind) {
    item.ForEach(list, [&](const JsonObject& part) {
      if (part.Text("type") != kind) part.Refuse("type", "must be " + std::string(kind));
      thoughts_ += part.Text("text");
    });
  };
  const OrderedJson* content = item.Find("content");
  if (content != nullptr && !content->empty()) return add("content", "reasoning_text");
  // The opened text should be the inside of a JSON string, with its escapes. Clients may have changed it, so it may no
  // longer be valid JSON.
  const auto opened = sealed ? OpenText(*sealed) : std::nullopt;
  const OrderedJson said = opened ? OrderedJson::parse('"' + *opened + '"', nullptr, false) : OrderedJson();
  if (said.is_string()) {
    thoughts_ += said.get<std::string>();
    return;
  }
  if (sealed)
    TellOnce("item reasoning", "thoughts that another server sealed (reasoning.encrypted_content) are passed over");
  if (item.Has("summary")) add("summary", "summary_text");
}

/// Adds the stored item that an item_reference names. An item's id contains the unique part of its response's id.
void ResponseItems::AddReference(const JsonObject& item) {
  KnowItem(item, {});
  const std::string id = item.Text("id");
  constexpr size_t kUnique = 16;
  const size_t at = id.find('_') + 1;
  const std::string response = at == 0 || id.size() < at + kUnique ? "" : "resp_" + id.substr(at, kUnique);
  if (!referred_.insert(id).second) item.Refuse("id", "is referred to twice; refer to it once");
  const std::string kept = find_(response, id);
  referred_bytes_ += static_cast<int64_t>(kept.size());
  growth_.Allow(kept.size());
  if (referred_bytes_ > kMostReferredBytes)
    item.Refuse("id", fmt::format("makes the items that are referred to more than {} bytes; send them themselves",
                                  kMostReferredBytes));
  const OrderedJson found = OrderedJson::parse(kept);
  if (found.value("type", "") == "item_reference") return;  // no output has such items
  Add(JsonObject(found, item.place()));
}

}  // namespace quire
