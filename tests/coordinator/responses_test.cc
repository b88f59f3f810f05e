// Tests of the translation of requests of the Responses API into chat requests, of their answers, and of the store of
// answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "coordinator/api/openai/response_store.h"
#include "coordinator/api/openai/responses_answer.h"
#include "coordinator/api/requests/responses/responses_request.h"
#include "coordinator/api/requests/responses/sealed_text.h"
#include "coordinator/http/api_error.h"
#include "coordinator/text/answers/tool.h"

namespace quire {
namespace {

std::string NoConversation(const std::string& id, const std::string&) {
  throw ApiError(404, "no " + id, "previous_response_id");
}

ResponsesRequest Read(const std::string& text, const FindKept& find = NoConversation) {
  return ChatOfResponses(OrderedJson::parse(text), find);
}

std::string ResponsesFault(const std::string& text) {
  try {
    Read(text);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "";
}

TEST(ResponsesRequestTest, Settings_BecomeChatSettings_OfTheSameMeaning) {
  const OrderedJson chat =
      Read(R"({"model": "m", "input": "hi", "instructions": "i", "max_output_tokens": 7, "top_p": 0.5,
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"zeta": 1, "alpha": 2}, "strict": true}}})")
          .chat;
  EXPECT_EQ(chat, OrderedJson::parse(R"({"model": "m", "top_p": 0.5, "max_tokens": 7,
      "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"zeta": 1, "alpha": 2},
         "strict": true}},
      "messages": [{"role": "system", "content": "i"}, {"role": "user", "content": "hi"}]})"));
}

TEST(ResponsesRequestTest, CallsAndReasoning_JoinTheAssistantsMessage) {
  const OrderedJson chat =
      Read(R"({"tools": [{"type": "function", "name": "f", "parameters": {"y": 1, "x": 2}, "strict": true}],
      "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
      "input": [{"role": "user", "content": "go"},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "h"},
           {"type": "reasoning_text", "text": "m"}]},
        {"type": "function_call", "id": "x", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]}]})")
          .chat;
  EXPECT_EQ(chat["tools"].dump(),
            R"([{"type":"function","function":{"name":"f","parameters":{"y":1,"x":2},"strict":true}}])");
  EXPECT_EQ(chat["tool_choice"].dump(), R"({"type":"function","function":{"name":"f"}})");
  EXPECT_EQ(chat["parallel_tool_calls"], false);
  EXPECT_EQ(chat["messages"], OrderedJson::parse(R"([{"role": "user", "content": "go"},
      {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "content": "one", "tool_call_id": "c1"},
         {"role": "tool", "content": "two", "tool_call_id": "c2"}])"));
}

TEST(ResponsesRequestTest, PreviousResponse_ContinuesTheConversation_WithoutOldInstructions) {
  const auto find = [](const std::string& id, const std::string& item_id) {
    EXPECT_EQ(id, "resp_1");
    EXPECT_EQ(item_id, "");
    return std::string(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  };
  const ResponsesRequest request =
      Read(R"({"input": "c", "instructions": "i", "previous_response_id": "resp_1", "store": false})", find);
  EXPECT_EQ(request.terms.conversation,
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])");
  EXPECT_EQ(request.chat["messages"].size(), 4u);
  EXPECT_EQ(request.chat["messages"][0]["role"], "system");
  EXPECT_FALSE(request.terms.store);
  EXPECT_THROW(Read(R"({"input": "c", "previous_response_id": "resp_1"})"), ApiError);
}

TEST(ResponsesRequestTest, Errors_NameTheFieldThatIsWrong) {
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "nonsense": 1})"),
            "nonsense is not supported by this server; leave it out");
  const std::pair<const char*, const char*> renamed[] = {
      {"max_tokens", "max_output_tokens"}, {"reasoning_effort", "reasoning.effort"}, {"response_format", "text.format"},
      {"messages", "input"},               {"guided_json", "structured_outputs"},    {"system", "instructions"}};
  for (const auto& [sent, here] : renamed) {
    EXPECT_EQ(ResponsesFault(fmt::format(R"({{"input": "x", "{}": 5}})", sent)),
              fmt::format("{} is not supported by this server; use {}", sent, here));
  }
  for (const char* off : {R"("verbosity": "low")", R"("stream_options": {"include_obfuscation": true})",
                          R"("context_management": [])", R"("thinking": {"type": "disabled"})",
                          R"("guided_decoding_backend": "xgrammar")", R"("timings_per_token": false)"})
    EXPECT_EQ(ResponsesFault(fmt::format(R"({{"input": "x", {}}})", off)), "") << off;
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "max_output_tokens": 0})"),
            "max_output_tokens must be an integer of at least 1");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "background": true})"),
            "background is not supported by this server; leave it out");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "background": false, "nonsense": null})"), "");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "metadata": {"a": 1}})"), "metadata.a must be a string");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "prompt_cache_key": {}})"), "prompt_cache_key must be a string");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "max_tool_calls": "1"})"), "max_tool_calls must be an integer");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "parallel_tool_calls": 1})"), "parallel_tool_calls must be true or false");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "include": "all"})"), "include must be a list");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "include": ["all"]})"),
            "include[0] is all, which is not supported by this server; leave it out");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "client_metadata": "m"})"), "client_metadata must be an object");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "reasoning": "low"})"), "reasoning must be an object");
  EXPECT_EQ(ResponsesFault(R"({"input": [{"role": "user"}]})"), "input[0].content is missing");
  EXPECT_EQ(ResponsesFault(R"({"input": [{"type": "function_call", "name": "f"}]})"), "input[0].call_id is missing");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "text": {"format": {"type": "text", "name": "x"}}})"),
            "text.format.name is not supported by this server; leave it out");
}

std::string Repeated(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// Returns the chat messages that a request's items become.
OrderedJson MessagesOf(const std::string& items, const FindKept& find = NoConversation) {
  return Read(R"({"input": )" + items + "}", find).chat["messages"];
}

TEST(ResponsesRequestTest, NamespacedTools_BecomeFunctions_AndKeepTheClientsNames) {
  const ResponsesRequest request = Read(R"({"input": "x", "tools": [
      {"type": "function", "name": "f", "defer_loading": true},
      {"type": "namespace", "name": "mcp__notes", "description": "d", "tools": [
        {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": false}]},
      {"type": "namespace", "name": "ends__", "tools": [{"type": "custom", "name": "say"}]},
      {"type": "web_search", "external_web_access": true}, {"type": "web_search_preview_2025_03_11"},
      {"type": "mcp", "server_url": "u"}, {"type": "tool_search", "execution": "client", "parameters": {}}],
      "tool_choice": {"type": "function", "namespace": "mcp__notes", "name": "add"}})");
  std::vector<std::string> names;
  for (const OrderedJson& tool : request.chat["tools"]) names.push_back(tool["function"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"f", "mcp__notes__add", "ends__say", "tool_search"}));
  EXPECT_EQ(request.chat["tool_choice"]["function"]["name"], "mcp__notes__add");
  EXPECT_EQ(request.terms.tools, (ResponseTools{{"mcp__notes__add", {ResponseTool::kFunction, "add", "mcp__notes"}},
                                                {"ends__say", {ResponseTool::kCustom, "say", "ends__"}},
                                                {"tool_search", {ResponseTool::kSearch, "tool_search", ""}}}));
}

TEST(ResponsesRequestTest, CustomTools_BecomeFunctionsWithOneText_ConstrainedByTheirGrammar) {
  const OrderedJson tools =
      Read(R"({"input": "x", "tools": [{"type": "custom", "name": "a", "format": {"type": "text"}},
      {"type": "custom", "name": "b", "description": "B.", "format": {"type": "grammar", "syntax": "regex",
         "definition": "a+"}},
      {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark",
         "definition": "start: \"x\" LF?\n%import common.LF"}}]})")
          .chat["tools"];
  const auto input = [&](size_t i) { return tools[i]["function"]["parameters"]["properties"]["input"]; };
  EXPECT_EQ(input(0), OrderedJson({{"type", "string"}}));
  EXPECT_FALSE(tools[0]["function"].contains("strict"));
  EXPECT_EQ(tools[1]["function"]["description"], "B. The text goes into the argument input.");
  EXPECT_EQ(input(1)["pattern"], "^(?:a+)$");
  EXPECT_EQ(tools[1]["function"]["strict"], true);
  EXPECT_EQ(input(2)["pattern"], "^(?:(?:(?:x)\\n?))$");
  EXPECT_EQ(input(2)["description"], "A text of this lark grammar:\nstart: \"x\" LF?\n%import common.LF");
}

TEST(ResponsesRequestTest, AllowedTools_HideTheOtherTools) {
  const std::string tools = R"("tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"},
      {"type": "web_search"}], )";
  const OrderedJson chat = Read(R"({"input": "x", )" + tools + R"("tool_choice": {"type": "allowed_tools",
      "mode": "required", "tools": [{"type": "custom", "name": "c"}, {"type": "web_search"}]}})")
                               .chat;
  EXPECT_EQ(chat["tools"].size(), 1u);
  EXPECT_EQ(chat["tools"][0]["function"]["name"], "c");
  EXPECT_EQ(chat["tool_choice"], "required");
  const auto fault = [&](const std::string& choice) {
    return ResponsesFault(R"({"input": "x", )" + tools + R"("tool_choice": )" + choice + "}");
  };
  EXPECT_EQ(fault(R"({"type": "web_search"})"),
            "tool_choice.type asks for web_search, which this server does not run; "
            "name a function, or leave it out");
  EXPECT_EQ(fault(R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]})"),
            "tool_choice.tools name none that this server's model can call, and one has to be called");
  EXPECT_EQ(fault(R"({"type": "function", "name": "c"})"), "tool_choice.name names no function among the tools");
  EXPECT_EQ(fault(R"({"type": "custom", "name": "f"})"), "tool_choice.name names no custom tool among the tools");
  EXPECT_EQ(fault(R"({"type": "nonsense"})").substr(0, 28), "tool_choice.type is nonsense");
}

TEST(ResponsesRequestTest, Tools_AreRefused_WhenUnknownInvalidOrRepeated) {
  const auto fault = [](const std::string& tools) {
    return ResponsesFault(R"({"input": "x", "tools": [)" + tools + "]}");
  };
  EXPECT_EQ(fault(R"({"type": "teleport"})").substr(0, 25), "tools[0].type is teleport");
  EXPECT_EQ(fault(R"({"type": "function", "name": "f"}, {"type": "custom", "name": "f"})"),
            "tools[1].name is there twice, as f; give each tool a name of its own");
  EXPECT_EQ(
      fault(R"({"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f g"}]})").substr(0, 22),
      "tools[0].tools[0].name");
  EXPECT_EQ(fault(R"({"type": "function", "name": "f", "sorcery": 1})"),
            "tools[0].sorcery is not supported by this server; leave it out");
  EXPECT_EQ(
      fault(R"({"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "ebnf", "definition": ""}})"),
      "tools[0].format.syntax must be lark or regex");
  for (const char* syntax : {"lark", "regex"}) {
    const std::string long_one = R"(", "definition": ")" + std::string((64 << 10) + 1, 'a') + R"("}})";
    EXPECT_EQ(fault(R"({"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": ")" +
                    std::string(syntax) + long_one),
              "tools[0].format.definition takes at most 65536 bytes");
  }
}

TEST(ResponsesRequestTest, ItemsOfEveryKind_BecomeMessages) {
  EXPECT_EQ(MessagesOf(R"([{"role": "user", "content": "go"},
      {"type": "function_call", "namespace": "n", "name": "f", "arguments": "{}", "call_id": "1"},
      {"type": "custom_tool_call", "name": "c", "input": "a\"b", "call_id": "2"},
      {"type": "local_shell_call", "id": "l", "call_id": "3", "status": "completed",
        "action": {"type": "exec", "command": ["ls"]}},
      {"type": "tool_search_call", "call_id": "4", "execution": "client", "arguments": {"query": "q"}},
      {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "t"},
        {"type": "input_image", "image_url": "data:"}]},
      {"type": "custom_tool_call_output", "call_id": "2", "output": "done"},
      {"type": "local_shell_call_output", "id": "3", "output": "files"},
      {"type": "tool_search_output", "call_id": "4", "status": "completed", "execution": "client", "tools": [
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        {"type": "function", "name": "h"}]},
      {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
      {"type": "mcp_list_tools", "server_label": "s", "tools": []},
      {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text",
        "text": "end"}], "internal_chat_message_metadata_passthrough": {"turn_id": "t"}}])"),
            OrderedJson::parse(R"([{"role": "user", "content": "go"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "n__f", "arguments": "{}"}},
        {"id": "2", "type": "function", "function": {"name": "c", "arguments": "{\"input\":\"a\\\"b\"}"}},
        {"id": "3", "type": "function", "function": {"name": "local_shell",
          "arguments": "{\"type\":\"exec\",\"command\":[\"ls\"]}"}},
        {"id": "4", "type": "function", "function": {"name": "tool_search", "arguments": "{\"query\":\"q\"}"}}]},
      {"role": "tool", "content": "t[an image left out: this model reads text only]", "tool_call_id": "1"},
      {"role": "tool", "content": "done", "tool_call_id": "2"},
      {"role": "tool", "content": "files", "tool_call_id": "3"},
      {"role": "tool", "content": "These tools can be called now: n__g, h", "tool_call_id": "4"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "w", "type": "function", "function": {
        "name": "web_search", "arguments": "{\"type\":\"search\",\"query\":\"q\"}"}}]},
      {"role": "tool", "content": "completed", "tool_call_id": "w"},
      {"role": "assistant", "content": "end"}])"));
}

TEST(ResponsesRequestTest, ToolsOfSearchOutputsAndAdditionalToolsItems_CanBeCalled) {
  const OrderedJson chat = Read(R"({"tools": [{"type": "function", "name": "f"}], "input": [
      {"type": "additional_tools", "role": "developer", "id": "a", "tools": [{"type": "namespace", "name": "n",
        "description": "", "tools": [{"type": "custom", "name": "exec"}]}]},
      {"role": "user", "content": "go"},
      {"type": "tool_search_output", "call_id": "1", "tools": [{"type": "function", "name": "f"},
        {"type": "function", "name": "g", "defer_loading": true}]}]})")
                               .chat;
  std::vector<std::string> names;
  for (const OrderedJson& tool : chat["tools"]) names.push_back(tool["function"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"f", "n__exec", "g"}));
}

TEST(ResponsesRequestTest, SearchOutput_ListsEveryCallableTool_Once) {
  const auto told = [](const std::string& tools) {
    const OrderedJson messages =
        MessagesOf(R"([{"role": "user", "content": "go"}, {"type": "tool_search_output", "call_id": "1", "tools": [)" +
                   tools + "]}]");
    return messages[1]["content"].get<std::string>();
  };
  const std::string f = R"({"type": "function", "name": "f"})";
  EXPECT_EQ(told(R"({"type": "mcp"}, {"type": "namespace", "name": "n", "tools": [{"type": "mcp"}, )" + f + "," + f +
                 R"(, {"type": "web_search"}]}, )" + f),
            "These tools can be called now: n__f, f");
  EXPECT_EQ(told(R"({"type": "namespace", "name": "n", "tools": [{"type": "mcp"}, {"type": "mcp"}]})"),
            "No tools were found.");
}

TEST(ResponsesRequestTest, NamesOfNamespacesAndCalls_AreRefused_Above128Bytes) {
  const std::string longest(kMaxToolNameBytes, 'x'), longer = longest + "x";
  const auto with = [](const std::string& item) {
    return ResponsesFault(R"({"input": [{"role": "user", "content": "go"}, )" + item + "]}");
  };
  const auto space = [](const std::string& name) {
    return R"({"type": "tool_search_output", "call_id": "1", "tools": [{"type": "namespace", "name": ")" + name +
           R"(", "tools": [{"type": "mcp"}]}]})";
  };
  EXPECT_EQ(with(space(longest)), "");
  EXPECT_EQ(with(space(longer)).rfind("input[1].tools[0].name must be 1 to 128 bytes", 0), 0u) << with(space(longer));
  for (const std::string kind :
       {R"("type": "function_call", "arguments": "{}")", R"("type": "custom_tool_call", "input": "")",
        R"("type": "mcp_call", "arguments": "{}")"}) {
    const auto call = [&](const std::string& name) {
      return "{" + kind + R"(, "call_id": "1", "name": ")" + name + R"("})";
    };
    EXPECT_EQ(with(call(longest)), "") << kind;
    EXPECT_EQ(with(call(longer)), "input[1].name is longer than 128 bytes") << kind;
  }
  EXPECT_EQ(with(R"({"type": "function_call", "arguments": "{}", "call_id": "1", "name": "f", "namespace": ")" +
                 longest + R"("})"),
            "input[1].name is longer than 128 bytes");
}

TEST(ResponsesRequestTest, Thoughts_AreRead_InEveryForm) {
  const auto thoughts = [](const std::string& item) {
    return MessagesOf(R"([{"role": "user", "content": "q"}, )" + item +
                      R"(, {"role": "assistant", "content": "a"}])")[1]
        .value("reasoning_content", "none");
  };
  const std::string sealed = SealText(R"(h\"m)");
  EXPECT_EQ(thoughts(R"({"type": "reasoning", "summary": [], "encrypted_content": ")" + sealed + R"("})"), "h\"m");
  EXPECT_EQ(thoughts(R"({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}],
      "encrypted_content": ")" +
                     sealed + R"("})"),
            "t");
  EXPECT_EQ(thoughts(R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}],
      "encrypted_content": "gAAAAA"})"),
            "s");
  EXPECT_EQ(thoughts(R"({"type": "reasoning", "summary": [], "content": [], "encrypted_content": "gAAAAA"})"), "none");
  EXPECT_EQ(thoughts(R"({"type": "reasoning", "summary": [], "encrypted_content": ")" + SealText("\xff") + R"("})"),
            "none")
      << "what is no text any more";
}

TEST(ResponsesRequestTest, ItemReferences_AreReplacedByStoredItems_OnceEach) {
  const auto find = [](const std::string& response_id, const std::string& item_id) -> std::string {
    EXPECT_EQ(response_id, "resp_0123456789abcdef");
    if (item_id == "msg_0123456789abcdef00") return R"({"type":"message","role":"assistant","content":"kept"})";
    throw ApiError(404, "no item " + item_id, "input");
  };
  const std::string refer = R"({"type": "item_reference", "id": "msg_0123456789abcdef00"})";
  EXPECT_EQ(MessagesOf("[" + refer + "]", find), OrderedJson::parse(R"([{"role": "assistant", "content": "kept"}])"));
  EXPECT_THROW(MessagesOf(R"([{"type": "item_reference", "id": "msg_0123456789abcdef01"}])", find), ApiError);
  EXPECT_THROW(MessagesOf("[" + refer + "," + refer + "]", find), ApiError) << "would multiply what is kept";
}

TEST(ResponsesRequestTest, UnsupportedItems_AreRefused_WithTheReason) {
  const auto fault = [](const std::string& item) { return ResponsesFault(R"({"input": [)" + item + "]}"); };
  for (const char* type : {"compaction", "context_compaction", "compaction_trigger", "image_generation_call",
                           "computer_call", "computer_call_output"}) {
    const std::string words = fault(fmt::format(R"({{"type": "{}"}})", type));
    EXPECT_EQ(words.find(fmt::format("input[0].type is {}: it ", type)), 0u) << words;
  }
  EXPECT_EQ(fault(R"({"type": "hologram"})"), "input[0].type is hologram, which is not known here; leave it out");
  EXPECT_EQ(fault(R"({"type": "function_call_output", "output": "x"})"), "input[0].call_id is missing");
  EXPECT_EQ(fault(R"({"role": "user", "content": [{"type": "input_image"}]})").substr(0, 43),
            "input[0].content[0].type is input_image; on");
}

TEST(ResponsesRequestTest, AgentSettingsWithoutEffect_AreAccepted) {
  const OrderedJson chat = Read(R"({"input": "x", "client_metadata": {"session_id": "s", "n": 1}, "truncation": "auto",
      "include": ["reasoning.encrypted_content", "web_search_call.action.sources"], "text": {"verbosity": "low"},
      "reasoning": {"summary": "detailed", "context": "all_turns"}, "prompt_cache_key": "k"})")
                               .chat;
  EXPECT_EQ(chat, OrderedJson::parse(R"({"messages": [{"role": "user", "content": "x"}]})"));
  EXPECT_TRUE(Read(R"({"input": "x", "include": ["reasoning.encrypted_content"]})").terms.seals);
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "reasoning": {"summary": "long"}})"),
            "reasoning.summary must be auto, concise or detailed");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "text": {"verbosity": "loud"}})"),
            "text.verbosity must be low, medium or high");
}

/// Expects that an answer with `parts` has the items `items` when it is returned as a whole, and the events `events`
/// when it is streamed.
void ExpectItems(const AnswerParts& parts, AnswerChoice choice, ResponseTools tools, const OrderedJson& items,
                 std::vector<std::string> events) {
  const ResponseTerms terms{R"("user":null)", "[1]", false, true, std::move(tools)};
  choice.finished = FinishReason::kStop;
  ResponsesForm whole({"resp_0123456789abcdef", "m", 5}, terms, ToolFormat::kNone, {});
  const auto answer = whole.Whole(std::move(choice), {7, 3, 2});
  const size_t most = answer->most_bytes();
  const OrderedJson given = OrderedJson::parse(answer->Next(SIZE_MAX));
  EXPECT_LE(answer->made_bytes(), most);
  ResponsesForm streamed({"resp_0123456789abcdef", "m", 5}, terms, ToolFormat::kNone, {});
  std::string text = streamed.Opening({})->Next(SIZE_MAX);
  CallEvent event;
  event.finished = FinishReason::kStop;
  for (const AnswerPart& part : parts) text += streamed.Delta({part}, event);
  const auto ending = streamed.Ending({7, 3, 2});
  while (!ending->done()) {
    const size_t at_most = ending->most_bytes();
    text += ending->Next(1);
    EXPECT_LE(ending->made_bytes(), at_most);
  }
  std::vector<std::string> names;
  OrderedJson last;
  for (size_t at = 0; (at = text.find("data: ", at)) != std::string::npos; ++at) {
    const OrderedJson one = OrderedJson::parse(text.substr(at + 6, text.find('\n', at) - at - 6));
    names.push_back(one["type"].get<std::string>().substr(9));
    last = one;
  }
  EXPECT_EQ(std::vector<std::string>(names.begin() + 2, names.end() - 1), events);
  for (OrderedJson output : {given["output"], last["response"]["output"]}) {
    for (OrderedJson& item : output) {
      EXPECT_EQ(item["id"].get<std::string>().find("_0123456789abcdef0"), item["id"].get<std::string>().find('_'));
      item.erase("id");
      item.erase("status");
      item.erase("call_id");
    }
    EXPECT_EQ(output, items) << output.dump();
  }
}

TEST(ResponsesAnswerTest, Calls_HaveTheClientsToolNames) {
  const ResponseTools tools = {{"n__f", {ResponseTool::kFunction, "f", "n"}},
                               {"n__say", {ResponseTool::kCustom, "say", "n"}},
                               {"tool_search", {ResponseTool::kSearch, "tool_search", ""}}};
  const std::string say = R"({"input": "a\"b\n"})", query = R"({"query": "q"})";
  AnswerChoice choice;
  choice.calls = {{"call_1", "n__f", "{}"}, {"call_2", "n__say", say}, {"call_3", "tool_search", query}};
  ExpectItems({{AnswerPart::kCall, "n__f", 0},
               {AnswerPart::kArguments, "{}", 0},
               {AnswerPart::kCall, "n__say", 1},
               {AnswerPart::kArguments, say.substr(0, 5), 1},
               {AnswerPart::kArguments, say.substr(5), 1},
               {AnswerPart::kCall, "tool_search", 2},
               {AnswerPart::kArguments, query, 2}},
              choice, tools, OrderedJson::parse(R"([
      {"type": "function_call", "namespace": "n", "name": "f", "arguments": "{}"},
      {"type": "custom_tool_call", "namespace": "n", "name": "say", "input": "a\"b\n"},
      {"type": "tool_search_call", "execution": "client", "arguments": {"query": "q"}}])"),
              {"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
               "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
               "output_item.added", "output_item.done"});
}

TEST(ResponsesAnswerTest, EncryptedThoughts_AreSent_WithTheReasoningItem) {
  AnswerChoice choice;
  choice.reasoning = std::string(1000, '"');
  const std::string sealed = SealText(Repeated(R"(\")", 1000));
  ExpectItems(
      {{AnswerPart::kReasoning, choice.reasoning, -1}}, choice, {},
      OrderedJson::array({{{"type", "reasoning"},
                           {"summary", OrderedJson::array()},
                           {"content", OrderedJson::array({{{"type", "reasoning_text"}, {"text", choice.reasoning}}})},
                           {"encrypted_content", sealed}}}),
      {"output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done",
       "output_item.done"});
}

TEST(ResponsesAnswerTest, CustomInputOf_ReturnsTheAvailableText_WhenTheArgumentsAreCut) {
  EXPECT_EQ(CustomInputOf(R"({"input": "abc"})"), "abc");
  EXPECT_EQ(CustomInputOf(R"({"input": "ab)"), "ab");
  EXPECT_EQ(CustomInputOf(R"({"input": "ab\)"), "ab");
  EXPECT_EQ(CustomInputOf(R"({"input": "ab\u00)"), "ab");
  EXPECT_EQ(CustomInputOf(R"({"inp)"), R"({"inp)");
  EXPECT_EQ(CustomInputOf(R"({"patch": "abc"})"), R"({"patch": "abc"})") << "nothing of what the model says is lost";
}

TEST(ResponsesAnswerTest, StoredAnswer_EqualsTheSentAnswer_AndExtendsTheConversation) {
  std::string kept, conversation;
  std::vector<InputItem> items;
  const auto keep = [&](StoredResponse stored) {
    kept = std::move(stored.response);
    conversation = std::move(stored.conversation);
    items = std::move(stored.input);
    return kept.size() < 2000;
  };
  for (const size_t length : {size_t{3}, size_t{2000}}) {
    const std::string settings = R"("user":")" + std::string(1000, 'u') + '"';
    const std::vector<InputItem> input = {{"msg_1", R"({"id":"msg_1"})"}};
    ResponsesForm form({"resp_1", "m", 5}, {settings, R"([{"role":"user","content":"a"}])", true, false, {}, input},
                       ToolFormat::kNone, keep);
    EXPECT_GE(form.repeated_bytes(), 1000);
    AnswerChoice choice;
    choice.text = std::string(length, '"');
    choice.finished = FinishReason::kStop;
    const auto whole = form.Whole(choice, {7, 3, 2});
    const size_t most = whole->most_bytes();
    std::string given = whole->Next(1);
    EXPECT_LE(whole->made_bytes(), most);
    EXPECT_LT(form.repeated_bytes(), 100) << "what was repeated is in the text now";
    given += whole->Next(SIZE_MAX);
    const Json json = Json::parse(given);
    EXPECT_EQ(json["output"][0]["content"][0]["text"], choice.text);
    EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 2);
    const bool fits = length == 3;
    EXPECT_EQ(json["store"], fits);
    EXPECT_EQ(given == kept, fits);
    EXPECT_EQ(Json::parse(conversation)[1], Json({{"role", "assistant"}, {"content", choice.text}}));
    ASSERT_EQ(items.size(), 1u);
    EXPECT_EQ(items[0].json, input[0].json);
  }
}

TEST(ResponsesAnswerTest, Ending_IsTheSame_InPiecesOfAnySize) {
  const auto ending = [](size_t piece) {
    ResponsesForm form({"resp_1", "m", 5}, {R"("user":null)", "[1]", false, false, {}}, ToolFormat::kNone, {});
    CallEvent event;
    event.finished = FinishReason::kLength;
    std::string text = form.Opening({})->Next(SIZE_MAX);
    text += form.Delta({{AnswerPart::kContent, std::string(100, 'x'), -1}}, event);
    EXPECT_GE(form.held_bytes(), 100);
    const auto rest = form.Ending({7, 3, 2});
    while (!rest->done()) {
      const size_t most = rest->most_bytes();
      text += rest->Next(piece);
      EXPECT_LE(rest->made_bytes(), most);
    }
    return text;
  };
  EXPECT_EQ(ending(1), ending(SIZE_MAX));
  EXPECT_NE(ending(1).find(R"("type":"response.incomplete","sequence_number":8)"), std::string::npos);
}

TEST(ResponsesRequestTest, InputItems_AreStoredInFullForm_WithReferencesResolved) {
  const FindKept find = [](const std::string& response, const std::string& item) -> std::string {
    EXPECT_EQ(response, "resp_0123456789abcdef");
    return R"({"type": "message", "id": ")" + item +
           R"(", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "k"}]})";
  };
  const auto items = [&](const std::string& body) {
    OrderedJson all = OrderedJson::array();
    for (const InputItem& item : Read(body, find).terms.input) {
      all.push_back(OrderedJson::parse(item.json));
      EXPECT_EQ(all.back()["id"], item.id);
      EXPECT_FALSE(item.id.empty());
    }
    return all;
  };
  OrderedJson text = items(R"({"input": "hi"})");
  ASSERT_EQ(text.size(), 1u);
  EXPECT_TRUE(text[0]["id"].get<std::string>().starts_with("msg_"));
  text[0]["id"] = "";
  EXPECT_EQ(text.dump(), R"([{"id":"","type":"message","status":"completed","role":"user",)"
                         R"("content":[{"type":"input_text","text":"hi"}]}])");
  const OrderedJson many = items(R"({"input": [{"role": "assistant", "content": "a"},
      {"type": "item_reference", "id": "msg_0123456789abcdef0"},
      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"n\":18446744073709551616}"},
      {"type": "function_call_output", "id": "own", "call_id": "c", "output": "out"}]})");
  ASSERT_EQ(many.size(), 4u);
  EXPECT_EQ(many[0]["content"][0]["type"], "output_text");
  EXPECT_EQ(many[1]["id"], "msg_0123456789abcdef0");
  EXPECT_EQ(many[2]["arguments"], R"({"n":18446744073709551616})");
  EXPECT_EQ(many[2]["status"], "completed");
  EXPECT_EQ(many[3]["id"], "own");
  EXPECT_NE(many[0]["id"], many[2]["id"]);
  EXPECT_NE(items(R"({"input": "hi"})")[0]["id"], items(R"({"input": "hi"})")[0]["id"]);
  EXPECT_EQ(Read(R"({"input": "hi", "store": false})").terms.input.size(), 0u) << "nobody can ask for them";
}

TEST(ResponsesRequestTest, PagesOfInputItems_ContinueAfterAnItem_InBothOrders) {
  std::vector<InputItem> items;
  for (const char* id : {"a", "b", "c"}) items.push_back({id, fmt::format(R"({{"id":"{}"}})", id)});
  const auto page = [&](const std::string& query) {
    const OrderedJson list = OrderedJson::parse(PageOfInputItems(items, ParseInputItemsQuery(query)));
    EXPECT_EQ(list["object"], "list");
    std::string ids;
    for (const OrderedJson& item : list["data"]) ids += item["id"].get<std::string>();
    EXPECT_EQ(list["first_id"], ids.empty() ? OrderedJson() : OrderedJson(ids.substr(0, 1)));
    EXPECT_EQ(list["last_id"], ids.empty() ? OrderedJson() : OrderedJson(ids.substr(ids.size() - 1)));
    return ids + (list["has_more"] == true ? "+" : "");
  };
  EXPECT_EQ(page(""), "cba");
  EXPECT_EQ(page("order=asc&limit=2"), "ab+");
  EXPECT_EQ(page("order=asc&after=b"), "c");
  EXPECT_EQ(page("after=b&limit=1&include=message.input_image.image_url&include%5B%5D=reasoning.encrypted_content"),
            "a");
  EXPECT_EQ(page("after=a"), "");
  for (const char* wrong : {"limit=0", "limit=101", "order=up", "before=a", "include=x", "after=d", "limit=1&limit=2"})
    EXPECT_THROW(page(wrong), ApiError) << wrong;
}

StoredResponse OfBytes(size_t bytes) { return {std::string(bytes, 'r'), "[]"}; }

TEST(ResponseStoreTest, Find_ReturnsOnlyAnswersOfTheSameClient) {
  ResponseStore store({});
  EXPECT_TRUE(store.Put("a", "1", {"A", "[]"}));
  EXPECT_TRUE(store.Put("b", "1", {"B", "[]"}));
  EXPECT_EQ(store.Find("a", "1")->response, "A");
  EXPECT_EQ(store.Find("b", "1")->response, "B");
  EXPECT_EQ(store.Find("", "1"), nullptr);
  EXPECT_EQ(store.Find("a", "2"), nullptr);
  EXPECT_FALSE(store.Erase("c", "1"));
  EXPECT_TRUE(store.Erase("a", "1"));
  EXPECT_FALSE(store.Erase("a", "1"));
  EXPECT_EQ(store.Find("a", "1"), nullptr);
  EXPECT_NE(store.Find("b", "1"), nullptr);
  EXPECT_TRUE(store.Erase("b", "1"));
  EXPECT_EQ(store.bytes(), 0);
}

TEST(ResponseStoreTest, Put_EvictsTheClientsLeastRecentlyUsedAnswers) {
  ResponseStore store(
      {.bytes = 1 << 20, .bytes_per_client = 10'000, .conversation_bytes = 1'000, .count = 100, .count_per_client = 3});
  for (const char* id : {"1", "2", "3"}) store.Put("a", id, OfBytes(10));
  EXPECT_NE(store.Find("a", "1"), nullptr);  // this use makes "2" the least recently used answer
  store.Put("a", "4", OfBytes(10));
  EXPECT_EQ(store.Find("a", "2"), nullptr);
  store.Put("a", "5", OfBytes(9'000));  // the limit of bytes evicts as many answers as needed
  EXPECT_EQ(store.Find("a", "3"), nullptr);
  EXPECT_NE(store.Find("a", "5"), nullptr);
  EXPECT_LE(store.bytes(), 10'000);
  EXPECT_FALSE(store.Put("a", "6", OfBytes(10'000)));
  EXPECT_FALSE(store.Put("a", "6", {"", std::string(1'001, 'c')}));
  EXPECT_EQ(store.Find("a", "6"), nullptr);
  EXPECT_NE(store.Find("a", "5"), nullptr);
}

TEST(ResponseStoreTest, LongestConversation_CountsOnlyStoredConversations) {
  ResponseStore store({.conversation_bytes = 5'000});
  EXPECT_EQ(store.LongestConversation("ann"), 0u);
  for (const auto& [id, length] : {std::pair("a", 1'000), {"b", 4'000}, {"c", 4'000}, {"d", 6'000}})
    store.Put("ann", id, {"{}", std::string(length, 'x')});
  EXPECT_EQ(store.LongestConversation("ann"), 4'000u);
  EXPECT_EQ(store.LongestConversation("bob"), 0u);
  store.Erase("ann", "b");
  EXPECT_EQ(store.LongestConversation("ann"), 4'000u);
  store.Erase("ann", "c");
  EXPECT_EQ(store.LongestConversation("ann"), 1'000u);
}

TEST(ResponseStoreTest, Put_EvictsAnswersOfTheLargestClient_WhenTheStoreIsFull) {
  ResponseStore store({.bytes = 20'000, .bytes_per_client = 15'000, .count = 6, .count_per_client = 6});
  store.Put("small", "1", OfBytes(100));
  for (const char* id : {"1", "2", "3"}) store.Put("large", id, OfBytes(4'000));
  store.Put("other", "1", OfBytes(9'000));
  EXPECT_EQ(store.Find("large", "1"), nullptr);
  EXPECT_NE(store.Find("small", "1"), nullptr);
  EXPECT_NE(store.Find("other", "1"), nullptr);
  EXPECT_LE(store.bytes(), 20'000);
  // The limit on the number of answers evicts, too.
  for (const char* id : {"2", "3", "4", "5"}) store.Put("small", id, OfBytes(1));
  EXPECT_EQ(store.Find("other", "1"), nullptr);
  EXPECT_NE(store.Find("small", "1"), nullptr);
}

}  // namespace
}  // namespace quire
