#include "coordinator/api/openai/described_tools.h"

#include <gtest/gtest.h>

#include "comm/base/json.h"
#include "coordinator/http/api_error.h"

namespace quire {
namespace {

const JsonCallForm& Generic() {
  static const JsonCallForm kForm = JsonCallFormOf(ToolFormat::kGeneric).value();
  return kForm;
}

Conversation Asked(const char* messages) {
  Conversation asked;
  asked.messages = OrderedJson::parse(messages);
  asked.tools = OrderedJson::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
  return asked;
}

TemplateTraits Traits(bool shows_system) {
  TemplateTraits traits;
  traits.shows_system = shows_system;
  return traits;
}

TextGrowth Unbounded() { return {"messages", 1 << 20}; }

TEST(DescribedToolsTest, Tools_AreDescribedInTheSystemMessage_OrInTheFirstTurnWhenTheTemplateShowsNone) {
  const std::string line = R"({"type":"function","function":{"name":"f","parameters":{}}})";
  const auto described = [&](const char* messages, bool shows_system) {
    Conversation asked = Asked(messages);
    const std::string prompt = ToolPrompt(Generic(), asked.tools);
    EXPECT_NE(prompt.find(line), std::string::npos) << prompt;
    EXPECT_NE(prompt.find("<tool_call>\n{\"name\": "), std::string::npos) << prompt;
    DescribeTools(Generic(), Traits(shows_system), asked);
    EXPECT_TRUE(asked.tools.is_null());
    OrderedJson messages_now = asked.messages;
    for (OrderedJson& message : messages_now) {
      std::string text = message["content"];
      if (const size_t at = text.find(prompt); at != std::string::npos) text.replace(at, prompt.size(), "TOOLS");
      message["content"] = text;
    }
    return DumpJson(Json(messages_now));
  };
  EXPECT_EQ(described(R"([{"role": "user", "content": "hi"}])", true),
            DumpJson(Json::parse(R"([{"role": "system", "content": "TOOLS"}, {"role": "user", "content": "hi"}])")));
  EXPECT_EQ(described(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])", true),
            DumpJson(Json::parse(
                R"([{"role": "system", "content": "Be brief.\n\nTOOLS"}, {"role": "user", "content": "hi"}])")));
  EXPECT_EQ(described(R"([{"role": "user", "content": "hi"}])", false),
            DumpJson(Json::parse(R"([{"role": "user", "content": "TOOLS\n\nhi"}])")));
  EXPECT_EQ(
      described(R"([{"role": "assistant", "content": "Yes?"}])", false),
      DumpJson(Json::parse(R"([{"role": "user", "content": "TOOLS"}, {"role": "assistant", "content": "Yes?"}])")));
}

TEST(DescribedToolsTest, CallsAndResults_BecomeText_AndTurnsAlternate) {
  Conversation asked = Asked(R"([
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
      {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "b", "content": "of g"},
    {"role": "tool", "tool_call_id": "a", "content": "of f"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
      {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "unknown", "content": "lost"}])");
  TextGrowth growth = Unbounded();
  WriteOutResults(asked, growth);
  EXPECT_TRUE(WriteOutCalls(ToolFormat::kGeneric, asked, growth));
  const std::string of_g = "<tool_response>\ng:\nof g\n</tool_response>";
  const std::string of_f = "<tool_response>\nf:\nof f\n</tool_response>";
  const auto call = [](const std::string& object) { return "<tool_call>\n" + object + "\n</tool_call>"; };
  const auto turn = [](const char* role, const std::string& words) {
    return OrderedJson{{"role", role}, {"content", words}};
  };
  const OrderedJson wanted = {turn("user", "hi"),
                              turn("assistant", call(R"({"name": "f", "arguments": {"x": 1}})") + "\n" +
                                                    call(R"({"name": "g", "arguments": {}})")),
                              turn("user", of_g + "\n\n" + of_f + "\n\nand?"),
                              turn("assistant", "I look.\n" + call(R"({"name": "f", "arguments": {}})")),
                              turn("user", "<tool_response>\nlost\n</tool_response>")};
  EXPECT_EQ(asked.messages, wanted) << DumpJson(Json(asked.messages));
}

TEST(DescribedToolsTest, PythonicCalls_BecomeText_InTheModelsForm) {
  const auto written = [](ToolFormat format) {
    Conversation asked = Asked(R"([{"role": "assistant", "content": "", "tool_calls": [
      {"function": {"name": "f", "arguments": "{\"x\": [true, null, {\"k\": 1.5}], \"y\": \"a'b\"}"}},
      {"function": {"name": "g", "arguments": ""}}]}])");
    TextGrowth growth = Unbounded();
    EXPECT_TRUE(WriteOutCalls(format, asked, growth));
    return asked.messages[0]["content"].get<std::string>();
  };
  const std::string call = "f(x=[True, None, {\"k\": 1.5}], y=\"a'b\")";
  EXPECT_EQ(written(ToolFormat::kLfm2), "<|tool_call_start|>[" + call + ", g()]<|tool_call_end|>");
  EXPECT_EQ(written(ToolFormat::kOlmo3), "<function_calls>\n" + call + "\ng()\n</function_calls>");
  Conversation other = Asked(R"([{"role": "assistant", "content": "", "tool_calls": [
    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}])");
  TextGrowth growth = Unbounded();
  EXPECT_FALSE(WriteOutCalls(ToolFormat::kGlm45, other, growth));
}

/// Returns a conversation that calls a function with a name of this many bytes, and has this many results of the call.
Conversation CalledOften(size_t name_bytes, int results) {
  Conversation asked;
  const OrderedJson function = {{"name", std::string(name_bytes, 'x')}, {"arguments", "{}"}};
  asked.messages = OrderedJson::array({OrderedJson{
      {"role", "assistant"}, {"tool_calls", OrderedJson::array({OrderedJson{{"id", "a"}, {"function", function}}})}}});
  for (int i = 0; i < results; ++i)
    asked.messages.push_back({{"role", "tool"}, {"tool_call_id", "a"}, {"content", ""}});
  return asked;
}

TEST(DescribedToolsTest, Results_AreRefused_WhereTheyRepeatMoreThanTheRequestMayGrow) {
  constexpr size_t kName = 400'000;
  const auto write = [](int results, std::stop_token stop) {
    Conversation asked = CalledOften(kName, results);
    TextGrowth growth("messages", TextBytes(asked.messages), std::move(stop));
    WriteOutResults(asked, growth);
    return asked.messages.back()["content"].get<std::string>().size();
  };
  EXPECT_GT(write(8, {}), 8 * kName);
  try {
    write(100, {});
    FAIL() << "40 MB were made of 0.4 MB";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, "messages");
  }
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_THROW(write(1, stopped.get_token()), Error);
}

TEST(TextGrowth, TextMadeOfARequest_IsRefused_BeyondEightTimesTheRequestsBytes) {
  TextGrowth growth("input", 100);
  growth.Add(TextGrowth::kBeside);
  growth.Add(800);
  EXPECT_THROW(growth.Add(1), ApiError);
  growth.Allow(10);
  growth.Add(80);
  EXPECT_THROW(growth.Add(1), ApiError);
  EXPECT_THROW(growth.Add(SIZE_MAX), ApiError);
}

TEST(TextGrowth, TextBytesOfJson_CountTextsNamesAndValues) {
  EXPECT_EQ(TextBytes(OrderedJson::parse(R"({"abc": ["de", 1, {"f": null}]})")), 6 * 8u + 3 + 2 + 1);
}

}  // namespace
}  // namespace quire
