// Tests the edits of the history that requests of the Messages API ask for. In these tests a token is a byte of the
// messages' JSON.
#include "coordinator/api/requests/context_edits.h"

#include <gtest/gtest.h>

#include "coordinator/http/api_error.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

constexpr int64_t kContext = 200'000;

ContextEdits Edits(const std::string& list) {
  const OrderedJson json = OrderedJson::parse(R"({"edits": [)" + list + "]}");
  return ReadContextEdits(JsonObject(json, "context_management"), kContext);
}

std::string EditsFault(const std::string& list) {
  return ErrorThrownBy<ApiError>([&] { Edits(list); });
}

OrderedJson Turn(int number) {
  const std::string id = "t" + std::to_string(number);
  return OrderedJson::parse(R"({"role": "assistant", "content": "", "reasoning_content": "hm", "reasoning": "hm",
      "thinking": "hm", "tool_calls": [{"id": ")" +
                            id + R"(", "type": "function", "function": {"name": ")" +
                            (number % 2 == 0 ? "even" : "odd") + R"(", "arguments": "{\"x\":1}"}}]})");
}

/// Returns five rounds of messages, each with thoughts, a call and the call's result.
OrderedJson History() {
  OrderedJson messages = {{{"role", "user"}, {"content", "go"}}};
  for (int i = 1; i <= 5; ++i) {
    messages.push_back(Turn(i));
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", "t" + std::to_string(i)}, {"content", std::string(100, 'r')}});
  }
  return messages;
}

struct Done {
  OrderedJson messages, applied;
  int counted = 0;
};

Done Apply(const std::string& list) {
  Done done{History(), nullptr};
  done.applied = ApplyContextEdits(Edits(list), done.messages, [&](const OrderedJson& messages) {
    ++done.counted;
    return static_cast<int64_t>(messages.dump().size());
  });
  return done;
}

/// Returns the numbers of the results that were cleared, as digits.
std::string Cleared(const OrderedJson& messages) {
  std::string cleared;
  for (const OrderedJson& message : messages) {
    if (message["role"] == "tool" && message["content"] == "[Old tool result content cleared]")
      cleared += message["tool_call_id"].get<std::string>().substr(1);
  }
  return cleared;
}

std::string Thinking(const OrderedJson& messages) {
  std::string turns;
  for (const OrderedJson& message : messages) {
    if (message.contains("thinking") && message.contains("reasoning_content"))
      turns += message["tool_calls"][0]["id"].get<std::string>().substr(1);
  }
  return turns;
}

TEST(ContextEdits, ClearThinking_KeepsTheThoughtsOfTheLatestTurns) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "clear_thinking_20251015"})", "5"},
      {R"({"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}})", "45"},
      {R"({"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}})", ""}};
  for (const auto& [edit, kept] : cases) {
    const Done done = Apply(edit);
    EXPECT_EQ(Thinking(done.messages), kept);
    ASSERT_EQ(done.applied.size(), 1u);
    EXPECT_EQ(done.applied[0]["type"], "clear_thinking_20251015");
    EXPECT_EQ(done.applied[0]["cleared_thinking_turns"], 5 - static_cast<int>(std::string(kept).size()));
    EXPECT_EQ(done.applied[0]["cleared_input_tokens"], History().dump().size() - done.messages.dump().size());
  }
}

TEST(ContextEdits, Edits_ChangeNothingAndCountNoTokens_WhenTheyKeepAllTurns) {
  for (const char* edit : {R"({"type": "clear_thinking_20251015", "keep": "all"})",
                           R"({"type": "clear_thinking_20251015", "keep": {"type": "all"}})",
                           R"({"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 5}})",
                           R"({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 5}})",
                           R"({"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 5}})"}) {
    const Done done = Apply(edit);
    EXPECT_EQ(done.messages, History()) << edit;
    EXPECT_EQ(done.applied, OrderedJson::array());
    EXPECT_EQ(done.counted, 0);
  }
}

TEST(ContextEdits, ClearToolUses_ClearsResults_OnlyAboveItsTrigger) {
  const auto tokens = static_cast<int64_t>(History().dump().size());
  const auto above = [](int64_t trigger) {
    return Apply(R"({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": )" +
                 std::to_string(trigger) + "}}");
  };
  EXPECT_EQ(Cleared(above(tokens).messages), "");
  const Done done = above(tokens - 1);
  EXPECT_EQ(Cleared(done.messages), "12");
  EXPECT_EQ(done.applied[0]["type"], "clear_tool_uses_20250919");
  EXPECT_EQ(done.applied[0]["cleared_tool_uses"], 2);
  EXPECT_EQ(done.applied[0]["cleared_input_tokens"], static_cast<size_t>(tokens) - done.messages.dump().size());
  EXPECT_EQ(Cleared(Apply(R"({"type": "clear_tool_uses_20250919"})").messages), "");  // the default: 100,000 tokens
  EXPECT_EQ(done.messages[1]["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
}

TEST(ContextEdits, ClearToolUses_SparesExcludedTools_AndClearsInputsOnRequest) {
  const std::string start = R"({"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1},
      "keep": {"type": "tool_uses", "value": 1}, )";
  EXPECT_EQ(Cleared(Apply(start + R"("exclude_tools": ["odd"]})").messages), "2");
  const Done all = Apply(start + R"("clear_tool_inputs": true})");
  EXPECT_EQ(Cleared(all.messages), "1234");
  EXPECT_EQ(all.messages[1]["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_EQ(all.messages[9]["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
  const Done even = Apply(start + R"("clear_tool_inputs": ["even"]})");
  EXPECT_EQ(even.messages[1]["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
  EXPECT_EQ(even.messages[3]["tool_calls"][0]["function"]["arguments"], "{}");
  const std::string least = R"("clear_at_least": {"type": "input_tokens", "value": )";
  EXPECT_EQ(Cleared(Apply(start + least + "1000}}").messages), "");
  EXPECT_EQ(Cleared(Apply(start + least + "50}}").messages), "1234");
}

TEST(ContextEdits, TwoEdits_AreAppliedInOrder) {
  const Done done = Apply(R"({"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919",
      "trigger": {"type": "tool_uses", "value": 1}})");
  EXPECT_EQ(done.applied.size(), 2u);
  EXPECT_EQ(Thinking(done.messages), "5");
  EXPECT_EQ(Cleared(done.messages), "12");
}

TEST(ContextEdits, Errors_NameTheInvalidEdit) {
  EXPECT_EQ(EditsFault(R"({"type": "clear_thinking_20251015"}, {"type": "clear_thinking_20251015", "keep": "all"})"),
            "context_management.edits[1].type is there twice; send one edit of each type");
  EXPECT_EQ(EditsFault(R"({"type": "clear_all"})"),
            "context_management.edits[0].type must be clear_thinking_20251015 or clear_tool_uses_20250919");
  EXPECT_EQ(EditsFault(R"({"type": "clear_thinking_20251015", "keep": {"type": "turns", "value": 1}})"),
            "context_management.edits[0].keep.type must be thinking_turns");
  EXPECT_EQ(EditsFault(R"({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": -1}})"),
            "context_management.edits[0].keep.value must be an integer of at least 0");
  EXPECT_EQ(EditsFault(R"({"type": "clear_tool_uses_20250919", "exclude_tools": [5]})"),
            "context_management.edits[0].exclude_tools must be a list of strings");
  EXPECT_EQ(EditsFault(R"({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 200000}})"), "");
  EXPECT_EQ(
      EditsFault(R"({"type": "compact_20260112"})"),
      "context_management.edits[0].type is compact_20260112, and this server makes no summaries; leave it out and "
      "ask for one in a request of its own, or clear results of tools");
}

}  // namespace
}  // namespace quire
