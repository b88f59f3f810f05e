#include "coordinator/api/requests/messages/messages_turns.h"

#include <array>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/chat_messages.h"
#include "coordinator/api/requests/messages/messages_blocks.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/responses/sealed_text.h"
#include "coordinator/api/requests/text_growth.h"

namespace quire {

namespace {

/// Blocks of earlier answers that the model does not see: thoughts hidden from clients, and a provider's notes.
constexpr std::string_view kSilentBlocks[] = {"redacted_thinking", "fallback", "mcp_tool_listing"};

/// Translates the turns (messages) of a Messages conversation into chat messages. Consecutive turns of one role become
/// one chat message.
class Turns {
 public:
  Turns(MessagesTools& tools, size_t bytes) : tools_(tools), growth_("messages", bytes) {}

  void AddSystem(std::string text) {
    role_ = "system";
    AddText(text);
  }

  /// is_past: true when a later turn is from the user.
  void Add(const JsonObject& turn, bool is_past) {
    const std::string role = turn.Text("role");
    if (role != "user" && role != "assistant" && role != "system")
      turn.Refuse("role", "must be user, assistant or system");
    if (role == "system") {
      turn.KnowOnly({"role", "content", "output_config", "clear_at"});
      ReadEffort(turn);
      if (IsCleared(turn, is_past)) return;
    } else {
      turn.KnowOnly({"role", "content"});
    }
    const OrderedJson* content = turn.Find("content");
    if (content == nullptr && role == "system" && turn.Has("output_config")) return;
    if (content == nullptr) turn.Refuse("content", "is missing");
    role_ = role;
    if (!out_.messages.empty() && out_.messages.back()["role"] == role) gap_ = "\n";
    out_.after_tools = false;
    if (content->is_string()) return AddText(content->get<std::string>());
    turn.ForEach("content", [&](const JsonObject& block) { AddBlock(block); });
  }

  MessagesTurns Take(const JsonObject& body) {
    if (role_ == "assistant") {
      const OrderedJson& last = out_.messages.empty() ? OrderedJson() : out_.messages.back();
      out_.begins_answer = last.is_object() && last["role"] == "assistant" && !last.contains("tool_calls") &&
                           !last["content"].get_ref<const std::string&>().empty();
      if (!out_.begins_answer)
        body.Refuse("messages", "must end with a turn of the user, or with the first words of the answer");
    }
    return std::move(out_);
  }

 private:
  OrderedJson& Last() {
    const bool goes_on = !out_.messages.empty() && out_.messages.back()["role"] == role_;
    if (!goes_on) out_.messages.push_back({{"role", role_}, {"content", ""}});
    return out_.messages.back();
  }

  void AddText(const std::string& text) {
    if (text.empty() && role_ == "system") return;
    growth_.Add(text.size());
    std::string& content = Last()["content"].get_ref<std::string&>();
    if (!content.empty()) content += gap_;
    gap_.clear();
    content += text;
  }

  void AddBlock(const JsonObject& block) {
    const std::string type = block.Text("type");
    if (role_ == "user" && type == "tool_result") return AddResult(block);
    if (role_ == "assistant") {
      if (type == "tool_use" || type == "server_tool_use" || type == "mcp_tool_use") return AddCall(block);
      if (type == "thinking") return AddThinking(block);
      if (IsIn(type, kSilentBlocks)) return;
      if (type.ends_with("_tool_result")) return AddToolMessage(block, WordsOfProviderResult(block, tools_));
    }
    if (role_ == "system" && (type == "tool_addition" || type == "tool_removal")) return ChangeTools(block, type);
    AddText(WordsOfBlock(block, tools_));
  }

  void AddCall(const JsonObject& block) {
    block.KnowOnly({"type", "id", "name", "input", "cache_control", "caller", "server_name"});
    const JsonObject input = block.Object("input");
    const std::string name = block.Text("name");
    CheckCalledName(name, block.Place("name"));
    std::string arguments = DumpExactJson(input.value());
    growth_.Add(arguments.size());
    OrderedJson& calls = Last()["tool_calls"];
    calls.push_back({{"id", block.Text("id")},
                     {"type", "function"},
                     {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  }

  void AddResult(const JsonObject& block) {
    block.KnowOnly({"type", "tool_use_id", "content", "is_error", "cache_control"});
    AddToolMessage(block, WordsOf(block, "content", tools_));
    out_.after_tools = true;
  }

  void AddToolMessage(const JsonObject& block, std::string text) {
    growth_.Add(text.size());
    if (block.Flag("is_error", false)) text = "Error: " + text;
    out_.messages.push_back(
        {{"role", "tool"}, {"tool_call_id", block.Text("tool_use_id")}, {"content", std::move(text)}});
    gap_.clear();
  }

  /// Returns the thoughts that a signature holds; empty for signatures of other servers. This server puts the thoughts
  /// into the signature when a request asks to omit thoughts from the answer.
  static std::string SealedThoughts(const JsonObject& block) {
    const auto opened = OpenText(block.OptionalText("signature").value_or(""));
    // Clients may have changed the text, so it may no longer be valid JSON.
    const OrderedJson said = opened ? OrderedJson::parse('"' + *opened + '"', nullptr, false) : OrderedJson();
    return said.is_string() ? said.get<std::string>() : "";
  }

  void AddThinking(const JsonObject& block) {
    block.KnowOnly({"type", "thinking", "signature", "cache_control"});
    OrderedJson& thoughts = Last()["reasoning_content"];
    if (thoughts.is_null()) thoughts = "";
    const std::string text = block.Text("thinking");
    thoughts.get_ref<std::string&>() += text.empty() ? SealedThoughts(block) : text;
  }

  /// Adds or removes tools in the middle of the conversation.
  void ChangeTools(const JsonObject& block, const std::string& change) {
    block.KnowOnly({"type", "tool", "cache_control"});
    const JsonObject tool = block.Object("tool");
    const std::string type = tool.Text("type");
    if (type == "mcp_tool_reference" || type == "mcp_toolset_reference") return;  // a provider would run those
    if (type == "tool_definition" && change == "tool_addition") {
      tool.KnowOnly({"type", "definition"});
      return AddText(tools_.Define(tool.Object("definition")));
    }
    if (type != "tool_reference") tool.Refuse("type", "must be tool_reference, or of a tool_addition tool_definition");
    tool.KnowOnly({"type", "name"});
    const std::string name = tool.Text("name");
    AddText(change == "tool_removal" ? tools_.Remove(name) : tools_.Load(name));
  }

  void ReadEffort(const JsonObject& turn) {
    if (!turn.Has("output_config")) return;
    const JsonObject config = turn.Object("output_config");
    config.KnowOnly({"effort"});
    if (const auto effort = config.OptionalText("effort")) out_.effort = effort;
  }

  static bool IsCleared(const JsonObject& turn, bool is_past) {
    const std::string until = turn.OptionalText("clear_at").value_or("never");
    if (until != "never" && until != "next_user_message") turn.Refuse("clear_at", "must be never or next_user_message");
    return until == "next_user_message" && is_past;
  }

  MessagesTools& tools_;
  TextGrowth growth_;
  MessagesTurns out_ = {.messages = OrderedJson::array()};
  std::string role_, gap_;  // gap_: separator before the next text
};

}  // namespace

MessagesTurns ReadMessagesTurns(const JsonObject& body, MessagesTools& tools) {
  Turns turns(tools, TextBytes(body.value()));
  if (std::string system = WordsOfSystem(body, tools); !system.empty()) turns.AddSystem(std::move(system));
  size_t count = 0, last_of_user = 0;
  body.ForEach("messages", [&](const JsonObject& turn) {
    if (turn.OptionalText("role") == "user") last_of_user = count;
    ++count;
  });
  size_t i = 0;
  body.ForEach("messages", [&](const JsonObject& turn) { turns.Add(turn, i++ < last_of_user); });
  return turns.Take(body);
}

}  // namespace quire
