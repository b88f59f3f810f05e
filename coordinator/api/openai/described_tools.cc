#include "coordinator/api/openai/described_tools.h"

#include <map>
#include <string>
#include <utility>

#include "comm/base/json.h"

namespace quire {

namespace {

std::string WordsOf(const OrderedJson& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : "";
}

/// Adds text before and after a message's own text.
void AddWords(const std::string& front, const std::string& back, OrderedJson& message) {
  const std::string own = WordsOf(message);
  const auto gap = [&](const std::string& added) { return own.empty() || added.empty() ? "" : "\n\n"; };
  message["content"] = front + gap(front) + own + gap(back) + back;
}

}  // namespace

void DescribeTools(const JsonCallForm& form, const TemplateTraits& traits, Conversation& conversation) {
  const std::string text = ToolPrompt(form, conversation.tools);
  conversation.tools = nullptr;
  OrderedJson& messages = conversation.messages;
  if (messages.front()["role"] == "system") return AddWords("", text, messages.front());
  if (traits.shows_system) {
    messages.insert(messages.begin(), OrderedJson{{"role", "system"}, {"content", text}});
    return;
  }
  if (messages.front()["role"] == "user") return AddWords(text, "", messages.front());
  messages.insert(messages.begin(), OrderedJson{{"role", "user"}, {"content", text}});
}

bool WriteOutCalls(ToolFormat format, Conversation& conversation) {
  for (OrderedJson& message : conversation.messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    const std::string words = WordsOf(message);
    const std::optional<std::string> text = CallsText(format, *calls);
    if (!text) return false;
    message["content"] = words + (words.empty() ? "" : "\n") + *text;
    message.erase("tool_calls");
  }
  return true;
}

void WriteOutResults(Conversation& conversation) {
  std::map<std::string, std::string> names;  // names of functions, by call id
  OrderedJson out = OrderedJson::array();
  bool follows_result = false;  // the last turn is the user's and begins with a result
  for (OrderedJson& message : conversation.messages) {
    for (const OrderedJson& call : message.value("tool_calls", OrderedJson::array()))
      names[call.value("id", "")] = call["function"].value("name", "");
    const bool is_result = message["role"] == "tool";
    if (is_result) {
      const auto name = names.find(message.value("tool_call_id", ""));
      const std::string text =
          ResultText(name == names.end() ? message.value("name", "") : name->second, WordsOf(message));
      message = {{"role", "user"}, {"content", text}};
    }
    if (follows_result && message["role"] == "user") {
      AddWords("", WordsOf(message), out.back());
      continue;
    }
    follows_result = is_result;
    out.push_back(std::move(message));
  }
  conversation.messages = std::move(out);
}

}  // namespace quire
