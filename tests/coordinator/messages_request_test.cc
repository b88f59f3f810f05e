// Tests of the translation of requests of the Messages API into requests of the Chat Completions API with the same
// meaning.
#include "coordinator/api/requests/messages/messages_request.h"

#include <gtest/gtest.h>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/dialect.h"
#include "coordinator/api/requests/json_fields.h"

namespace quire {
namespace {

constexpr RequestLimits kLimits = {.vocab_size = 1000, .max_model_len = 4096};

OrderedJson Chat(const std::string& text) { return ChatOfMessages(OrderedJson::parse(text), kLimits).chat; }

/// Returns the error message for a valid request with these additional members; "" when there is no error.
std::string Fault(const std::string& members) {
  try {
    Chat(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], )" + members + "}");
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(std::string(error.what()).rfind(error.param, 0), 0u) << error.what();
    return error.what();
  }
  return "";
}

TEST(MessagesRequestTest, Settings_BecomeChatSettings_OfTheSameMeaning) {
  const OrderedJson chat = Chat(R"({"model": "m", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 5,
      "stop_sequences": ["a", "b"], "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto",
      "system": "s", "messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(chat, OrderedJson::parse(R"({"model": "m", "temperature": 0.5, "top_p": 0.9, "stream": true, "top_k": 5,
      "max_tokens": 9, "stop": ["a", "b"],
      "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})"));
}

TEST(MessagesRequestTest, ToolCallsAndResults_BecomeChatMessages) {
  const OrderedJson chat =
      Chat(R"({"max_tokens": 9, "tools": [{"name": "f", "description": "d", "input_schema": {"zeta": 1, "alpha": 2}}],
      "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
      "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": ""},
           {"type": "thinking", "thinking": "m"},
           {"type": "text", "text": "well"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"y": 1, "x": 2}},
           {"type": "tool_use", "id": "t2", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
              "content": [{"type": "text", "text": "one"}]},
           {"type": "tool_result", "tool_use_id": "t2", "content": "two", "is_error": true},
           {"type": "text", "text": "so?"}]}]})");
  EXPECT_EQ(chat["tools"].dump(), R"([{"type":"function","function":{"name":"f","description":"d",)"
                                  R"("parameters":{"zeta":1,"alpha":2}}}])");
  EXPECT_EQ(chat["tool_choice"].dump(), R"({"type":"function","function":{"name":"f"}})");
  EXPECT_EQ(chat["parallel_tool_calls"], false);
  EXPECT_EQ(chat["messages"], OrderedJson::parse(R"([{"role": "user", "content": "go"},
      {"role": "assistant", "content": "well", "reasoning_content": "hm", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"y\":1,\"x\":2}"}},
        {"id": "t2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "t1", "content": "one"},
      {"role": "tool", "tool_call_id": "t2", "content": "Error: two"},
      {"role": "user", "content": "so?"}])"));
}

TEST(MessagesRequestTest, Integers_KeepTheirDigits_InCallsAndSchemas) {
  const std::string body = R"({"max_tokens": 9, "tools": [{"name": "f", "input_schema": {"type": "object",
      "properties": {"id": {"enum": [18446744073709551616, 9223372036854775808]}}}}], "messages": [
        {"role": "user", "content": "go"}, {"role": "assistant", "content": [
           {"type": "tool_use", "id": "t", "name": "f", "input": {"id": 123456789012345678901234567890}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "so"}]}]})";
  const OrderedJson chat = ChatOfMessages(ParseExactJson(body), kLimits).chat;
  EXPECT_EQ(chat["messages"][1]["tool_calls"][0]["function"]["arguments"], R"({"id":123456789012345678901234567890})");
  const GenerateCall call = ParseMessagesRequest(RequestBody(body), kLimits, true);
  EXPECT_EQ(DumpExactJson(call.conversation.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
            R"("properties":{"id":{"enum":[18446744073709551616,9223372036854775808]}}}}}])");
}

TEST(MessagesRequestTest, ToolChoice_BecomesTheValueOfTheChatApi) {
  for (const auto& [here, there] : {std::pair{"auto", "auto"}, {"any", "required"}, {"none", "none"}}) {
    const OrderedJson chat = Chat(
        std::string(R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": ")") + here + "\"}}");
    EXPECT_EQ(chat["tool_choice"], there);
  }
}

TEST(MessagesRequestTest, ConsecutiveMessages_OfOneRole_AreJoined) {
  const OrderedJson chat = Chat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [
      {"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}, {"role": "assistant", "content": "d"},
      {"role": "user", "content": "e"}]})");
  EXPECT_EQ(chat["messages"], OrderedJson::parse(R"([{"role": "user", "content": "a\nbc"},
      {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"}])"));
}

TEST(MessagesRequestTest, Errors_NameTheFieldThatIsWrong) {
  EXPECT_EQ(Fault(R"("thread": {"type": "create"})"),
            "thread is not supported by this server, which keeps no conversations; send all messages");
  EXPECT_EQ(Fault(R"("compaction": {"type": "summarize"})"),
            "compaction is not supported by this server; leave it out and ask for a summary in a message");
  EXPECT_EQ(Fault(R"("container": {"skills": [{"skill_id": "x"}]})"),
            "container must have no skills: this server runs no code");
  EXPECT_EQ(Fault(R"("service_tier": 5)"), "service_tier must be a string");
  EXPECT_EQ(Fault(R"("metadata": {"other": 1})"), "metadata.other is not supported by this server; leave it out");
  EXPECT_EQ(Fault(R"("tools": [{"name": "f"}])"), "tools[0].input_schema is missing");
  EXPECT_EQ(Fault(R"("tools": [5])"), "tools[0] must be an object");
  EXPECT_EQ(Fault(R"("tool_choice": {"type": "x"})"), "tool_choice.type must be auto, any, tool or none");
  EXPECT_EQ(Fault(R"("system": [{"type": "text"}])"), "system[0].text is missing");
  EXPECT_EQ(Fault(R"("output_config": {"format": {"type": "xml"}})"), "output_config.format.type must be json_schema");
  EXPECT_EQ(Fault(R"("output_config": {"format": {"type": "json_schema", "schema": {}}},
                     "output_format": {"type": "json_schema", "schema": {}})"),
            "output_format cannot be combined with output_config.format; leave out one");
}

TEST(MessagesRequestTest, UnknownFields_AreRefused_WithTheNearestKnownName) {
  const auto fault = [](const std::string& members) {
    static const UnknownFields kUnknown(false);
    RequestLimits limits = kLimits;
    limits.unknown = &kUnknown;
    const std::string body = R"({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], )" + members + "}";
    try {
      ParseMessagesRequest(RequestBody(body), limits, true);
    } catch (const ApiError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(fault(R"("context_managment": {})"),
            "context_managment is no field of this request; is context_management meant?");
  EXPECT_EQ(fault(R"("nonsense": true)"), "nonsense is no field of this request; leave it out");
  EXPECT_EQ(fault(R"("stop": "x")"), "stop is no field of this request; use stop_sequences");
  EXPECT_EQ(fault(R"("store": true, "verbosity": "low", "separate_reasoning": true)"), "");
  EXPECT_EQ(fault(R"("nonsense": null)"), "");
  EXPECT_EQ(fault(R"("speed": "fast", "inference_geo": "us", "fallbacks": "default", "diagnostics": {},
                     "container": "c", "cache_control": {"type": "ephemeral", "ttl": "1h"})"),
            "");
}

TEST(MessagesRequestTest, MaxTokens_IsCutToTheContext_WhenItIsLarger) {
  const auto parse = [](const std::string& tokens, bool generates) {
    const std::string text = R"({"messages": [{"role": "user", "content": "x"}])" + tokens + "}";
    return ParseMessagesRequest(RequestBody(text), kLimits, generates);
  };
  EXPECT_EQ(parse(R"(, "max_tokens": 64000)", true).max_tokens, 4096);
  EXPECT_TRUE(parse(R"(, "max_tokens": 64000)", true).cut_to_context);
  EXPECT_EQ(parse("", false).max_tokens, std::nullopt);
  EXPECT_THROW(parse("", true), ApiError);
  EXPECT_THROW(parse(R"(, "max_tokens": 1.5)", true), ApiError);
}

TEST(MessagesRequestTest, NamesOfEarlierCalls_AreRefused_Above128Bytes) {
  const auto fault = [](size_t bytes) -> std::string {
    try {
      Chat(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [
          {"type": "tool_use", "id": "a", "input": {}, "name": ")" +
           std::string(bytes, 'x') +
           R"("}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]})");
    } catch (const ApiError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault(128), "");
  EXPECT_EQ(fault(129), "messages[1].content[0].name is longer than 128 bytes");
}

TEST(MessagesRequestTest, InWordsOf_RenamesOnlyWholeWords) {
  const auto told = [](const char* message) {
    return std::string(InWordsOf(Dialect::kRerank, ApiError(400, message, "prompt")).what());
  };
  EXPECT_EQ(told("2049 prompts with 1 choices each are too many"), "2049 prompts with 1 choices each are too many");
  EXPECT_EQ(told("some prompts: the prompt is empty"), "some prompts: the documents is empty");
}

TEST(MessagesRequestTest, InWordsOf_RenamesChatFieldsInErrors_ToThoseOfTheDialect) {
  const auto told = [](Dialect dialect, const ApiError& error) {
    const ApiError renamed = InWordsOf(dialect, error);
    return std::string(renamed.what()) + " | " + renamed.param;
  };
  EXPECT_EQ(told(Dialect::kMessages, {400, "stop must be strings", "stop"}),
            "stop_sequences must be strings | stop_sequences");
  EXPECT_EQ(told(Dialect::kMessages, {400, "stop_token_ids must be", "stop_token_ids"}),
            "stop_token_ids must be | stop_token_ids");
  EXPECT_EQ(told(Dialect::kChat, {400, "stop must be strings", "stop"}), "stop must be strings | stop");
  EXPECT_EQ(told(Dialect::kResponses,
                 {400, "response_format.json_schema.schema is missing", "response_format.json_schema.schema"}),
            "text.format.schema is missing | text.format.schema");
  ApiError vain(400, "max_tokens are many", "max_tokens");
  vain.retry_in_vain = true;
  vain.code = "c";
  const ApiError renamed = InWordsOf(Dialect::kResponses, vain);
  EXPECT_TRUE(renamed.retry_in_vain);
  EXPECT_EQ(renamed.code, "c");
  EXPECT_EQ(renamed.param, "max_output_tokens");
}

}  // namespace
}  // namespace quire
