// Tests of requests that agents send to the Messages API: tools that are added and removed, blocks of all kinds, system
// turns.
#include <gtest/gtest.h>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/messages/messages_request.h"
#include "coordinator/api/requests/responses/sealed_text.h"
#include "coordinator/http/api_error.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

constexpr RequestLimits kAgentsLimits = {.vocab_size = 1000, .max_model_len = 4096};
const std::string kHi = R"("messages": [{"role": "user", "content": "hi"}])";

MessagesRequest Read(const std::string& members) {
  return ChatOfMessages(ParseExactJson("{" + members + "}"), kAgentsLimits);
}

OrderedJson Said(const std::string& members) { return Read(members).chat["messages"]; }

std::string AgentFault(const std::string& members) {
  return ErrorThrownBy<ApiError>([&] { Read(members); });
}

/// Returns the names of the tools in a list in OpenAI's format.
std::string Names(const OrderedJson& tools) {
  std::string names;
  for (const OrderedJson& tool : tools) names += tool["function"]["name"].get<std::string>() + " ";
  return names;
}

std::string Tool(const std::string& name, const std::string& more = "") {
  return R"({"name": ")" + name + R"(", "input_schema": {"type": "object", "properties": {}})" + more + "}";
}

const std::string kDeferred = R"(, "defer_loading": true)";
const std::string kFound = R"({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "s", "content": [
    {"type": "tool_reference", "tool_name": "late"}]}]})";

TEST(MessagesTools, DeferredTools_AreDescribed_WhereTheConversationLoadsThem) {
  const std::string tools =
      R"("tools": [)" + Tool("now") + "," + Tool("late", kDeferred) + "," + Tool("never", kDeferred) + "], ";
  const MessagesRequest before = Read(tools + kHi);
  EXPECT_EQ(Names(before.shown), "now ");
  EXPECT_EQ(Names(before.chat["tools"]), "now ");
  const MessagesRequest after = Read(tools + R"("messages": [{"role": "user", "content": "hi"}, )" + kFound + "]");
  EXPECT_EQ(after.shown, before.shown);  // the beginning of the prompt stays equal
  EXPECT_EQ(Names(after.chat["tools"]), "now late ");
  EXPECT_EQ(after.chat["messages"][1]["content"],
            R"({"type":"function","function":{"name":"late","parameters":{"type":"object","properties":{}}}})"
            "\n");
  const MessagesRequest twice =
      Read(tools + R"("messages": [{"role": "user", "content": "hi"}, )" + kFound + "," + kFound + "]");
  EXPECT_EQ(twice.chat["messages"][1], after.chat["messages"][1]);
  EXPECT_EQ(twice.chat["messages"][2]["content"], "late\n");
}

TEST(MessagesTools, DeferredTools_AreShownFromTheStart_WhenTheModelCannotSearchForThem) {
  const std::string late = Tool("late", kDeferred);
  EXPECT_EQ(Names(Read(R"("tools": [)" + late + R"(, {"type": "tool_search_tool_regex_20251119",
      "name": "tool_search_tool_regex"}], )" +
                       kHi)
                      .shown),
            "late ");
  EXPECT_EQ(Names(Read(R"("tools": [)" + late + R"(], "tool_choice": {"type": "tool", "name": "late"}, )" + kHi).shown),
            "late ");
  EXPECT_EQ(
      Names(
          Read(R"("tools": [)" + late + R"(], "messages": [{"role": "user", "content": "hi"}, )" + kFound + "]").shown),
      "late ");
  EXPECT_FALSE(Read(R"("tools": [)" + late + "], " + kHi).chat.contains("tools"));
}

TEST(MessagesTools, SystemTurns_AddAndRemoveTools) {
  const MessagesRequest request = Read(R"("tools": [)" + Tool("a") + "," + Tool("b") + R"(], "messages": [
      {"role": "user", "content": "hi"}, {"role": "system", "content": [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "a"}},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "b",
            "input_schema": {"type": "object", "properties": {"x": {}}}}}},
        {"type": "tool_addition", "tool": {"type": "mcp_toolset_reference", "server_name": "s"}}]}])");
  EXPECT_EQ(Names(request.shown), "a b ");
  ASSERT_EQ(Names(request.chat["tools"]), "b ");
  EXPECT_TRUE(request.chat["tools"][0]["function"]["parameters"]["properties"].contains("x"));
  EXPECT_EQ(request.chat["messages"][1]["content"],
            "The function a may not be called any more.\n"
            "This function may be called from now on:\n" +
                DumpExactJson(request.chat["tools"][0]) + "\n");
}

TEST(MessagesTools, ToolDefinition_IsWrittenOnce_WhenAToolIsAddedAndRemovedSeveralTimes) {
  const std::string late = R"("tool": {"type": "tool_reference", "name": "late"}})";
  const std::string gone = R"({"type": "tool_removal", )" + late, there = R"({"type": "tool_addition", )" + late;
  const MessagesRequest request =
      Read(R"("tools": [)" + Tool("a") + "," + Tool("late", kDeferred) + R"(], "messages": [
      {"role": "user", "content": "hi"}, {"role": "system", "content": [)" +
           there + "," + gone + "," + there + "," + there + "," + gone + "," + there + "]}]");
  ASSERT_EQ(Names(request.chat["tools"]), "a late ");
  const std::string no_more = "The function late may not be called any more.\n";
  const std::string again = "The function late may be called again.\n";
  EXPECT_EQ(request.chat["messages"][1]["content"],
            DumpExactJson(request.chat["tools"][1]) + "\n" + no_more + again + "late\n" + no_more + again);
}

TEST(MessagesTools, ProviderTools_AreLeftOut_AndRefusedWhenToolChoiceNamesThem) {
  const std::string tools =
      R"("mcp_servers": [{"type": "url", "url": "u", "name": "n"}], "tools": [
      {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
      {"type": "web_fetch_20260309", "name": "web_fetch"},
      {"type": "code_execution_20260521", "name": "code_execution"}, {"type": "mcp_toolset", "mcp_server_name": "n"},
      {"type": "advisor_20260301", "name": "advisor", "model": "m"}, )" +
      Tool("coded", R"(, "allowed_callers": ["code_execution_20260120"])") + "," +
      Tool("f", R"(, "allowed_callers": ["direct"], "eager_input_streaming": true, "cache_control": {"ttl": "1h"})") +
      "], ";
  EXPECT_EQ(Names(Read(tools + kHi).chat["tools"]), "f ");
  for (const std::string name : {"web_search", "coded"}) {
    EXPECT_EQ(AgentFault(tools + R"("tool_choice": {"type": "tool", "name": ")" + name + "\"}, " + kHi),
              "tool_choice.name is that of a tool that a provider would run; this server runs none, so leave it out");
  }
  const std::string only = R"("tools": [{"type": "web_search_20250305", "name": "web_search"}], )";
  EXPECT_FALSE(Read(only + R"("tool_choice": {"type": "auto"}, )" + kHi).chat.contains("tools"));
  EXPECT_EQ(AgentFault(only + R"("tool_choice": {"type": "any"}, )" + kHi),
            "tool_choice.type asks for a call, but all the tools are ones that a provider would run; "
            "describe tools of your own by an input_schema");
}

TEST(MessagesTools, ProviderTypedTools_AreRefused_BeyondSixteen) {
  const auto some = [](const std::string& type, int count) {
    std::string tools;
    for (int i = 0; i < count; ++i)
      tools += fmt::format(R"({}{{"type": "{}", "name": "t{}"}})", i == 0 ? "" : ", ", type, i);
    return R"("tools": [)" + tools + "], ";
  };
  for (const std::string type : {"bash_20250124", "text_editor_20250728", "memory_20250818"}) {
    EXPECT_EQ(Read(some(type, 16) + kHi).chat["tools"].size(), 16u);
    EXPECT_EQ(AgentFault(some(type, 17) + kHi),
              fmt::format("tools[16].type is {}: a request takes at most 16 tools of such types; leave out the others",
                          type));
  }
}

TEST(MessagesTools, ProviderTypedTools_GetSchemas_AndInputExamplesAreDescribed) {
  const OrderedJson tools = Read(R"("tools": [{"type": "bash_20250124", "name": "bash"},
      {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9},
      {"type": "memory_20250818", "name": "memory"},
      {"name": "e", "description": "d", "input_schema": {}, "input_examples": [{"x": 1}, {"x": 2}]}], )" +
                                 kHi)
                                .chat["tools"];
  ASSERT_EQ(Names(tools), "bash str_replace_based_edit_tool memory e ");
  EXPECT_TRUE(tools[0]["function"]["parameters"]["properties"].contains("restart"));
  EXPECT_EQ(tools[1]["function"]["parameters"]["required"], OrderedJson::parse(R"(["command", "path"])"));
  EXPECT_TRUE(tools[2]["function"]["parameters"]["properties"].contains("new_path"));
  EXPECT_EQ(tools[3]["function"]["description"], "d\n\nExamples of its input:\n{\"x\":1}\n{\"x\":2}");
  EXPECT_EQ(AgentFault(R"("tools": [{"type": "computer_20251124", "name": "computer"}], )" + kHi),
            "tools[0].type is computer_20251124, whose results are images; this server takes texts only: leave it out");
  EXPECT_EQ(AgentFault(R"("tools": [{"type": "bashful_20250124", "name": "b"}], )" + kHi),
            "tools[0].type is bashful_20250124, which this server does not know; describe the tool by an input_schema, "
            "with the type custom");
}

TEST(MessagesTurns, BillingHeaderLine_IsRemovedFromTheSystemPrompt) {
  const std::string line = "x-anthropic-billing-header: cc_version=2.1.332.3b1; cc_entrypoint=sdk-cli;";
  const std::string rest = R"({"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}])";
  const OrderedJson plain = Said(R"("system": [)" + rest + "," + kHi);
  EXPECT_EQ(Said(R"("system": [{"type": "text", "text": ")" + line + R"("},)" + rest + "," + kHi), plain);
  EXPECT_EQ(Said(R"("system": ")" + line + R"(\nBe short.",)" + kHi), plain);
  EXPECT_EQ(Said(R"("system": ")" + line + R"(",)" + kHi).size(), 1u);
}

TEST(MessagesTurns, SystemTurns_StayInPlace_UnlessTheyAreCleared) {
  const OrderedJson said = Said(R"("system": "s", "messages": [{"role": "system", "content": "t"},
      {"role": "user", "content": "a"},
      {"role": "system", "content": "once", "clear_at": "next_user_message"},
      {"role": "system", "content": [{"type": "text", "text": "b"}], "output_config": {"effort": "low"}},
      {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"},
      {"role": "system", "output_config": {"effort": "max"}},
      {"role": "system", "content": "e", "clear_at": "next_user_message"}], "output_config": {"effort": "medium"})");
  EXPECT_EQ(said, OrderedJson::parse(R"([{"role": "system", "content": "s\nt"}, {"role": "user", "content": "a"},
      {"role": "system", "content": "b"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"},
      {"role": "system", "content": "e"}])"));
  EXPECT_EQ(AgentFault(R"("messages": [{"role": "system", "content": "t", "clear_at": "x"}])"),
            "messages[0].clear_at must be never or next_user_message");
}

TEST(MessagesTurns, EffortOfTheLatestTurn_BecomesAHint) {
  const MessagesRequest request =
      Read(R"("output_config": {"effort": "low", "task_budget": {"type": "tokens", "total": 5}},
      "messages": [{"role": "user", "content": "a"},
                   {"role": "system", "content": "b", "output_config": {"effort": "max"}}])");
  EXPECT_EQ(request.chat["reasoning_effort"], "high");
  EXPECT_EQ(request.hints, std::vector<std::string>{"reasoning_effort"});
  const MessagesRequest between = Read(R"("thinking": {"type": "between_tools"}, )" + kHi);
  EXPECT_EQ(between.chat["enable_thinking"], false);
  EXPECT_EQ(Read(R"("thinking": {"type": "between_tools"}, "messages": [)" + kFound + "]").chat["enable_thinking"],
            true);
  EXPECT_EQ(Read(R"("thinking": {"type": "adaptive", "display": "omitted", "block_binding": {}}, )" + kHi).hints,
            std::vector<std::string>{"enable_thinking"});
  EXPECT_TRUE(Read(R"("thinking": {"type": "enabled", "budget_tokens": 1024}, )" + kHi).hints.empty());
  EXPECT_TRUE(Read(R"("thinking": {"type": "adaptive", "display": "omitted"}, )" + kHi).seals_thoughts);
  EXPECT_FALSE(Read(R"("thinking": {"type": "adaptive", "display": "summarized"}, )" + kHi).seals_thoughts);
}

TEST(MessagesTurns, EncryptedThoughts_BecomeTheReasoningOfTheirTurn_WhenTheClientSendsThemBack) {
  const auto thoughts = [](const std::string& block) {
    return Said(R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [)" + block +
                R"(, {"type": "text", "text": "b"}]}, {"role": "user", "content": "c"}])")[1]["reasoning_content"];
  };
  const auto signed_as = [](const std::string& thinking, const std::string& signature) {
    return R"({"type": "thinking", "thinking": ")" + thinking + R"(", "signature": ")" + signature + "\"}";
  };
  EXPECT_EQ(thoughts(signed_as("", SealText(R"(h\"m\n)"))), "h\"m\n");
  EXPECT_EQ(thoughts(signed_as("x", SealText("hm"))), "x");
  EXPECT_EQ(thoughts(signed_as("", "another server's")), "");
  EXPECT_EQ(thoughts(signed_as("", SealText("\xff"))), "");
}

TEST(MessagesTurns, DocumentsAndSearchResults_BecomeText) {
  const OrderedJson said = Said(R"("messages": [{"role": "user", "content": [
      {"type": "document", "title": "T", "context": "C", "citations": {"enabled": false},
       "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
      {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "more"}]}},
      {"type": "search_result", "source": "S", "title": "U", "content": [{"type": "text", "text": "found"}]}]}])");
  EXPECT_EQ(said[0]["content"],
            "<document>\ntitle: T\ncontext: C\nwords\n</document>\n<document>\nmore\n</document>\n"
            "<search_result>\ntitle: U\nsource: S\nfound\n</search_result>\n");
  EXPECT_EQ(AgentFault(R"("messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64",
                  "media_type": "application/pdf", "data": "x"}}]}])"),
            "messages[0].content[0].source.type is base64; this server takes documents of the types text and content: "
            "send its text");
  EXPECT_EQ(AgentFault(R"("messages": [{"role": "user", "content": [{"type": "document", "citations": {"enabled": true},
                  "source": {"type": "text", "data": "x"}}]}])"),
            "messages[0].content[0].citations.enabled must be false: answers of this server cite no places");
  EXPECT_EQ(
      AgentFault(R"("messages": [{"role": "user", "content": [{"type": "image"}]}])"),
      "messages[0].content[0].type is image, which is not supported here; this server takes texts only: leave it out");
}

TEST(MessagesTurns, EarlierProviderToolUses_BecomeCallsAndResults) {
  const OrderedJson said = Said(R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [
      {"type": "redacted_thinking", "data": "x"},
      {"type": "server_tool_use", "id": "i", "name": "web_search", "input": {"query": "q"}},
      {"type": "web_search_tool_result", "tool_use_id": "i", "content": [{"type": "web_search_result", "title": "t"}]},
      {"type": "text", "text": "so"}]}, {"role": "user", "content": "r"}])");
  ASSERT_EQ(said.size(), 5u);
  EXPECT_EQ(said[1]["tool_calls"][0]["function"]["arguments"], R"({"query":"q"})");
  EXPECT_EQ(said[2]["content"], R"([{"type":"web_search_result","title":"t"}])");
  EXPECT_EQ(said[3]["content"], "so");
}

TEST(MessagesTurns, LastAssistantTurn_BeginsTheAnswer) {
  const MessagesRequest begun =
      Read(R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is ("}])");
  EXPECT_EQ(begun.chat["continue_final_message"], true);
  EXPECT_FALSE(Read(kHi).chat.contains("continue_final_message"));
  for (const std::string last : {R"("")", R"([{"type": "tool_use", "id": "i", "name": "f", "input": {}}])"}) {
    EXPECT_EQ(
        AgentFault(R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": )" + last + "}]"),
        "messages must end with a turn of the user, or with the first words of the answer");
  }
  EXPECT_EQ(AgentFault(R"("output_config": {"format": {"type": "json_schema", "schema": {}}}, "messages": [
                  {"role": "user", "content": "q"}, {"role": "assistant", "content": "{"}])"),
            "messages must end with a turn of the user where a format of the answer is asked for");
}

}  // namespace
}  // namespace quire
