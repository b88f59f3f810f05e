#include "coordinator/text/templates/adapted_conversation.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/text/answers/call_arguments.h"

namespace quire {

namespace {

constexpr size_t kMaxArgumentDepth = 64;  // nesting allowed in calls of earlier answers

/// Called before each text is made, with the number of bytes that the text needs.
using Makes = std::function<void(size_t bytes)>;

const std::string* TextAt(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->get_ptr<const OrderedJson::string_t*>();
}

/// Returns the JSON object in the text; null when the text is no JSON object or exceeds a limit.
OrderedJson ObjectIn(const std::string& text) {
  try {
    if (ParseJson(text, "arguments", {.max_depth = kMaxArgumentDepth}).is_object()) return ParseExactJson(text);
  } catch (const Error&) {
  }
  return nullptr;
}

/// Converts a call's arguments into the template's form. Text that is no JSON object (a model's mistake) stays as it
/// is, or becomes the member INVALID_JSON of an object if the template accepts only objects.
void AdaptArguments(const TemplateTraits& traits, OrderedJson& call) {
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return;
  const std::string* text = TextAt(*function, "arguments");
  if (text == nullptr) return;
  std::string object = ObjectOfArguments(*text);
  if (traits.object_arguments && ObjectIn(object).is_null()) object = DumpExactJson({{"INVALID_JSON", *text}});
  const bool is_none = object == "{}";
  if (traits.text_arguments) {
    if (traits.object_arguments) (*function)["arguments"] = std::move(object);
    return;
  }
  OrderedJson parsed = ObjectIn(traits.object_arguments || is_none ? object : *text);
  if (!parsed.is_null()) (*function)["arguments"] = std::move(parsed);
}

bool HasCalls(const OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

/// Appends the content to the thoughts and clears it, for templates that show only one of the two beside calls.
void JoinWordsWithThoughts(OrderedJson& message, const Makes& makes) {
  const std::string* words = TextAt(message, "content");
  const std::string* thoughts = TextAt(message, "thinking");
  if (words == nullptr || thoughts == nullptr || words->empty() || thoughts->empty()) return;
  makes(3 * (words->size() + thoughts->size()));
  const std::string joined = *thoughts + "\n\n" + *words;
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    if (message.contains(name)) message[name] = joined;
  }
  message["content"] = "";
}

/// Moves text beside calls into a separate assistant message before the message with the calls.
OrderedJson WithWordsApart(const OrderedJson& messages, const TemplateTraits& traits) {
  OrderedJson out = OrderedJson::array();
  for (OrderedJson message : messages) {
    const std::string* words = TextAt(message, "content");
    if (HasCalls(message) && words != nullptr && !words->empty()) {
      out.push_back({{"role", message["role"]}, {"content", *words}});
      message["content"] = traits.null_content ? OrderedJson() : OrderedJson("");
    }
    out.push_back(std::move(message));
  }
  return out;
}

/// Splits an answer with several calls into answers with one call each, each followed by the results of its call.
OrderedJson WithOneCallEach(const OrderedJson& messages, const TemplateTraits& traits) {
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    if (!HasCalls(message) || message["tool_calls"].size() == 1) {
      out.push_back(message);
      continue;
    }
    std::vector<const OrderedJson*> results;
    while (i + 1 < messages.size() && messages[i + 1]["role"] == "tool") results.push_back(&messages[++i]);
    OrderedJson answer = message;
    for (const OrderedJson& call : message["tool_calls"]) {
      answer["tool_calls"] = OrderedJson::array({call});
      out.push_back(std::exchange(
          answer, {{"role", message["role"]}, {"content", traits.null_content ? OrderedJson() : OrderedJson("")}}));
      const std::string* id = TextAt(call, "id");
      const bool is_last = &call == &message["tool_calls"].back();
      for (const OrderedJson*& result : results) {
        const std::string* of = result == nullptr ? nullptr : TextAt(*result, "tool_call_id");
        if (result == nullptr || !(is_last || (id != nullptr && of != nullptr && *id == *of))) continue;
        out.push_back(*std::exchange(result, nullptr));
      }
    }
  }
  return out;
}

/// Moves each system message after the first message into a user message, or to the end of a tool's result. A user
/// message next to the moved text is joined with it, so that user and assistant still alternate.
OrderedJson WithSystemFirst(const OrderedJson& messages) {
  OrderedJson out = OrderedJson::array();
  bool last_has_system = false;  // the last message holds later words of the system
  for (OrderedJson message : messages) {
    const bool later = !out.empty() && message["role"] == "system";
    if (later) message["role"] = "user";
    OrderedJson* last = out.empty() ? nullptr : &out.back();
    const bool after_result = later && last != nullptr && (*last)["role"] == "tool";
    const bool after_user =
        (later || last_has_system) && last != nullptr && (*last)["role"] == "user" && message["role"] == "user";
    const std::string* words = TextAt(message, "content");
    if ((after_result || after_user) && words != nullptr && TextAt(*last, "content") != nullptr) {
      (*last)["content"].get_ref<std::string&>().append("\n\n").append(*words);
      last_has_system = last_has_system || later;
    } else {
      out.push_back(std::move(message));
      last_has_system = later;
    }
  }
  return out;
}

/// Replaces ids of calls by ids of nine letters and digits, also in the calls' results. Ids of this form stay.
class ShortIds {
 public:
  void Shorten(OrderedJson& object, const char* name) {
    const std::string* id = TextAt(object, name);
    if (id == nullptr) return;
    const bool fits =
        id->size() == kLetters && std::ranges::all_of(*id, [](unsigned char c) { return std::isalnum(c); });
    if (!fits) object[name] = Of(*id);
  }

 private:
  static constexpr size_t kLetters = 9;

  const std::string& Of(const std::string& id) {
    std::string& letters = ids_[id];
    static constexpr std::string_view kAll = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t number = std::hash<std::string>()(id);
    for (; letters.size() < kLetters; number /= kAll.size()) letters += kAll[number % kAll.size()];
    return letters;
  }

  std::map<std::string, std::string> ids_;
};

/// Replaces ids of calls by ids that contain the function's name and a count over the conversation: functions.NAME:0.
/// The results of a call get the call's new id.
void NameIds(OrderedJson& messages, const Makes& makes) {
  std::map<std::string, std::string> named;
  int count = 0;
  for (OrderedJson& message : messages) {
    if (HasCalls(message)) {
      for (OrderedJson& call : message["tool_calls"]) {
        const auto function = call.find("function");
        const std::string* name =
            function == call.end() || !function->is_object() ? nullptr : TextAt(*function, "name");
        makes(2 * (name == nullptr ? 0 : name->size()));
        const std::string id = "functions." + (name == nullptr ? "" : *name) + ":" + std::to_string(count++);
        if (const std::string* given = TextAt(call, "id")) named[*given] = id;
        call["id"] = id;
      }
    }
    const std::string* of = TextAt(message, "tool_call_id");
    const auto known = of == nullptr ? named.end() : named.find(*of);
    if (known == named.end()) continue;
    makes(known->second.size());
    message["tool_call_id"] = known->second;
  }
}

/// Inserts an empty assistant message before a user message that directly follows a call or a call's result.
OrderedJson WithAnsweredResults(const OrderedJson& messages) {
  OrderedJson out = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    const bool called = !out.empty() && (HasCalls(out.back()) || out.back()["role"] == "tool");
    if (called && message["role"] == "user") out.push_back({{"role", "assistant"}, {"content", ""}});
    out.push_back(message);
  }
  return out;
}

/// True for an answer that has neither text nor calls, for example because it ended within its thoughts.
bool SaysNothing(const OrderedJson& message) {
  if (message["role"] != "assistant" || HasCalls(message)) return false;
  const auto content = message.find("content");
  return content == message.end() || content->is_null() || *content == "";
}

void AdaptMessages(const TemplateTraits& traits, const Makes& makes, OrderedJson& messages) {
  if (traits.system_first) messages = WithSystemFirst(messages);
  ShortIds ids;
  for (OrderedJson& message : messages) {
    makes(0);  // throws when the request has ended, so that no work follows
    if (!traits.null_content && message.contains("content") && message["content"].is_null()) message["content"] = "";
    if (traits.short_ids) ids.Shorten(message, "tool_call_id");
    if (!HasCalls(message)) continue;
    for (OrderedJson& call : message["tool_calls"]) {
      AdaptArguments(traits, call);
      if (traits.short_ids) ids.Shorten(call, "id");
    }
    if (traits.words_or_thoughts) JoinWordsWithThoughts(message, makes);
  }
  if (traits.named_ids) NameIds(messages, makes);
  if (traits.words_apart) messages = WithWordsApart(messages, traits);
  if (traits.one_call) messages = WithOneCallEach(messages, traits);
  if (traits.answered_results) messages = WithAnsweredResults(messages);
  for (OrderedJson& message : messages) {
    if (traits.speaking_answers && SaysNothing(message)) message["content"] = " ";
  }
}

OrderedJson& Member(OrderedJson& object, const char* name, const OrderedJson& otherwise) {
  OrderedJson& member = object[name];
  if (member.is_null()) member = otherwise;
  return member;
}

/// Completes a property's schema and all schemas in it: adds a missing description, reduces several types to the first
/// that is not "null", and turns additionalProperties or items that are no object into {"type": "string"}.
void CompleteProperty(OrderedJson& schema) {
  if (!schema.is_object()) schema = OrderedJson::object();
  Member(schema, "description", "");
  const auto type = schema.find("type");
  if (type == schema.end()) return;
  if (type->is_array()) {
    const auto named = std::ranges::find_if(*type, [](const OrderedJson& name) { return name != "null"; });
    *type = named == type->end() ? OrderedJson("null") : OrderedJson(*named);
  }
  const OrderedJson any = {{"type", "string"}};
  const char* const part = *type == "object" ? "additionalProperties" : *type == "array" ? "items" : nullptr;
  if (part != nullptr) {
    OrderedJson& others = schema[part];
    if (!others.is_object()) others = any;
    CompleteProperty(others);
  }
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return;
  for (const auto& entry : properties->items()) CompleteProperty(entry.value());
}

void AdaptTools(const TemplateTraits& traits, OrderedJson& tools) {
  if (!tools.is_array() || !(traits.whole_tools || traits.whole_properties)) return;
  for (OrderedJson& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    OrderedJson& function = tool["function"];
    Member(function, "description", "");
    OrderedJson& parameters = Member(function, "parameters", {{"type", "object"}});
    if (!parameters.is_object()) continue;
    OrderedJson& properties = Member(parameters, "properties", OrderedJson::object());
    if (parameters.contains("required")) Member(parameters, "required", OrderedJson::array());
    if (!traits.whole_properties || !properties.is_object()) continue;
    for (const auto& entry : properties.items()) CompleteProperty(entry.value());
  }
}

/// Writes the tools' functions as a JSON text into the system message's member `tools`. Adds a missing system message.
void PutToolsIntoSystem(Conversation& conversation) {
  if (!conversation.tools.is_array() || conversation.tools.empty()) return;
  OrderedJson functions = OrderedJson::array();
  for (const OrderedJson& tool : conversation.tools)
    functions.push_back(tool.is_object() && tool.contains("function") ? tool["function"] : tool);
  OrderedJson& messages = conversation.messages;
  const bool has_system = !messages.empty() && messages.front()["role"] == "system";
  if (!has_system) {
    messages.insert(messages.begin(),
                    OrderedJson{{"role", "system"}, {"content", "You are a helpful assistant with some tools."}});
  }
  messages.front()["tools"] = DumpExactJson(functions);
}

}  // namespace

Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation, const Makes& makes) {
  Conversation adapted = conversation;
  AdaptMessages(traits, makes ? makes : [](size_t) {}, adapted.messages);
  AdaptTools(traits, adapted.tools);
  if (traits.system_tools) PutToolsIntoSystem(adapted);
  return adapted;
}

}  // namespace quire
