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

/// Adds words in front of a message's own text.
void AddWordsInFront(const std::string& words, OrderedJson& message) {
  const std::string own = WordsOf(message);
  message["content"] = words + (own.empty() || words.empty() ? "" : "\n\n") + own;
}

/// Appends words to a message's text. The time depends only on the length of the new words.
void AddWords(const std::string& words, OrderedJson& message) {
  OrderedJson& content = message["content"];
  if (!content.is_string()) content = "";
  auto& own = content.get_ref<std::string&>();
  if (!own.empty() && !words.empty()) own += "\n\n";
  own += words;
}

/// Returns the name of the function that gave the message as its result; empty: unknown.
std::string NameOfResult(const std::map<std::string, std::string>& names, const OrderedJson& message) {
  const auto name = names.find(message.value("tool_call_id", ""));
  return name == names.end() ? message.value("name", "") : name->second;
}

}  // namespace

void DescribeTools(const JsonCallForm& form, const TemplateTraits& traits, Conversation& conversation) {
  const std::string text = ToolPrompt(form, conversation.tools);
  conversation.tools = nullptr;
  OrderedJson& messages = conversation.messages;
  if (messages.front()["role"] == "system") return AddWords(text, messages.front());
  if (traits.shows_system) {
    messages.insert(messages.begin(), OrderedJson{{"role", "system"}, {"content", text}});
    return;
  }
  if (messages.front()["role"] == "user") return AddWordsInFront(text, messages.front());
  messages.insert(messages.begin(), OrderedJson{{"role", "user"}, {"content", text}});
}

bool WriteOutCalls(ToolFormat format, Conversation& conversation, TextGrowth& growth) {
  for (OrderedJson& message : conversation.messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    const std::string words = WordsOf(message);
    const std::optional<std::string> text = CallsText(format, *calls);
    if (!text) return false;
    growth.Add(words.size() + text->size());
    message["content"] = words + (words.empty() ? "" : "\n") + *text;
    message.erase("tool_calls");
  }
  return true;
}

void WriteOutResults(Conversation& conversation, TextGrowth& growth) {
  std::map<std::string, std::string> names;  // names of functions, by call id
  OrderedJson out = OrderedJson::array();
  bool follows_result = false;  // the last message is the user's and begins with a result
  for (OrderedJson& message : conversation.messages) {
    if (const auto calls = message.find("tool_calls"); calls != message.end()) {
      for (const OrderedJson& call : *calls) names[call.value("id", "")] = call["function"].value("name", "");
    }
    const bool is_result = message["role"] == "tool";
    if (is_result) {
      const std::string name = NameOfResult(names, message), words = WordsOf(message);
      growth.Add(name.size() + words.size());
      message = {{"role", "user"}, {"content", ResultText(name, words)}};
    }
    if (follows_result && message["role"] == "user") {
      AddWords(WordsOf(message), out.back());
      continue;
    }
    follows_result = is_result;
    out.push_back(std::move(message));
  }
  conversation.messages = std::move(out);
}

}  // namespace quire
