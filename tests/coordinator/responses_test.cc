// The Responses API's requests as those of chat that say the same, and what is kept of answers.
#include <gtest/gtest.h>

#include "coordinator/api/openai/response_store.h"
#include "coordinator/api/openai/responses_answer.h"
#include "coordinator/api/requests/api_error.h"
#include "coordinator/api/requests/responses_request.h"

namespace quire {
namespace {

std::string NoConversation(const std::string& id) { throw ApiError(404, "no " + id, "previous_response_id"); }

ResponsesRequest Read(const std::string& text, const FindConversation& find = NoConversation) {
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

TEST(ResponsesRequestTest, SettingsKeepTheirMeaning) {
  const OrderedJson chat =
      Read(R"({"model": "m", "input": "hi", "instructions": "i", "max_output_tokens": 7, "top_p": 0.5,
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"zeta": 1, "alpha": 2}, "strict": true}}})")
          .chat;
  EXPECT_EQ(chat, OrderedJson::parse(R"({"model": "m", "top_p": 0.5, "max_tokens": 7,
      "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"zeta": 1, "alpha": 2},
         "strict": true}},
      "messages": [{"role": "system", "content": "i"}, {"role": "user", "content": "hi"}]})"));
}

TEST(ResponsesRequestTest, CallsAndReasoningGoIntoTheAssistantsMessages) {
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

TEST(ResponsesRequestTest, ConversationsGoOnWithoutTheirInstructions) {
  const auto find = [](const std::string& id) {
    EXPECT_EQ(id, "resp_1");
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

TEST(ResponsesRequestTest, FaultsNameTheirPlace) {
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "nonsense": 1})"), "nonsense is not supported by this server");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "background": true})"), "background is not supported by this server");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "background": false, "nonsense": null})"), "");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "metadata": {"a": 1}})"), "metadata.a must be a string");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "prompt_cache_key": {}})"), "prompt_cache_key must be a string");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "max_tool_calls": "1"})"), "max_tool_calls must be an integer");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "parallel_tool_calls": 1})"), "parallel_tool_calls must be true or false");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "include": "all"})"), "include is not supported by this server");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "reasoning": "low"})"), "reasoning must be an object");
  EXPECT_EQ(ResponsesFault(R"({"input": [{"role": "user"}]})"), "input[0].content is missing");
  EXPECT_EQ(ResponsesFault(R"({"input": [{"type": "function_call", "name": "f"}]})"), "input[0].call_id is missing");
  EXPECT_EQ(ResponsesFault(R"({"input": [{"type": "reasoning", "encrypted_content": "x"}]})"),
            "input[0].encrypted_content is not supported by this server");
  EXPECT_EQ(ResponsesFault(R"({"input": "x", "text": {"format": {"type": "text", "name": "x"}}})"),
            "text.format.name is not supported by this server");
}

TEST(ResponsesAnswerTest, WhatIsKeptGoesOnAndIsWhatWasGiven) {
  std::string kept, conversation;
  const auto keep = [&](std::string response, std::string so_far) {
    kept = std::move(response);
    conversation = std::move(so_far);
    return kept.size() < 2000;
  };
  for (const size_t length : {size_t{3}, size_t{2000}}) {
    const std::string settings = R"("user":")" + std::string(1000, 'u') + '"';
    ResponsesForm form({"resp_1", "m", 5}, {settings, R"([{"role":"user","content":"a"}])", true}, ToolFormat::kNone,
                       keep);
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
  }
}

TEST(ResponsesAnswerTest, EndingsAreTheSameInPiecesOfAnySize) {
  const auto ending = [](size_t piece) {
    ResponsesForm form({"resp_1", "m", 5}, {R"("user":null)", "[1]", false}, ToolFormat::kNone, {});
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

StoredResponse OfBytes(size_t bytes) { return {std::string(bytes, 'r'), "[]"}; }

TEST(ResponseStoreTest, EveryClientFindsItsOwn) {
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

TEST(ResponseStoreTest, AClientLosesWhatItUsedLongestAgo) {
  ResponseStore store(
      {.bytes = 1 << 20, .bytes_per_client = 10'000, .conversation_bytes = 1'000, .count = 100, .count_per_client = 3});
  for (const char* id : {"1", "2", "3"}) store.Put("a", id, OfBytes(10));
  EXPECT_NE(store.Find("a", "1"), nullptr);  // used: "2" is the oldest now
  store.Put("a", "4", OfBytes(10));
  EXPECT_EQ(store.Find("a", "2"), nullptr);
  store.Put("a", "5", OfBytes(9'000));  // and by bytes, as many as it takes
  EXPECT_EQ(store.Find("a", "3"), nullptr);
  EXPECT_NE(store.Find("a", "5"), nullptr);
  EXPECT_LE(store.bytes(), 10'000);
  EXPECT_FALSE(store.Put("a", "6", OfBytes(10'000)));
  EXPECT_FALSE(store.Put("a", "6", {"", std::string(1'001, 'c')}));
  EXPECT_EQ(store.Find("a", "6"), nullptr);
  EXPECT_NE(store.Find("a", "5"), nullptr);
}

TEST(ResponseStoreTest, TheLongestConversationIsKnownAsLongAsItIsKept) {
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

TEST(ResponseStoreTest, WhoHoldsMostGivesWayToOthers) {
  ResponseStore store({.bytes = 20'000, .bytes_per_client = 15'000, .count = 6, .count_per_client = 6});
  store.Put("small", "1", OfBytes(100));
  for (const char* id : {"1", "2", "3"}) store.Put("large", id, OfBytes(4'000));
  store.Put("other", "1", OfBytes(9'000));
  EXPECT_EQ(store.Find("large", "1"), nullptr);
  EXPECT_NE(store.Find("small", "1"), nullptr);
  EXPECT_NE(store.Find("other", "1"), nullptr);
  EXPECT_LE(store.bytes(), 20'000);
  for (const char* id : {"2", "3", "4", "5"}) store.Put("small", id, OfBytes(1));  // and by their number
  EXPECT_EQ(store.Find("other", "1"), nullptr);
  EXPECT_NE(store.Find("small", "1"), nullptr);
}

}  // namespace
}  // namespace quire
