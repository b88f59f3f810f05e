#include "coordinator/api/requests/openai_request.h"

#include <gtest/gtest.h>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/unsupported_fields.h"

namespace quire {
namespace {

constexpr RequestLimits kChatLimits = {
    .vocab_size = 1000, .max_model_len = 4096, .max_choices = 128, .max_prompts = 16};

GenerateCall ParseChat(const Json& body) {
  const std::string text = DumpJson(body);
  return ParseChatRequest(RequestBody(text), kChatLimits);
}
GenerateCall ParseCompletion(const Json& body) {
  const std::string text = DumpJson(body);
  return ParseCompletionRequest(RequestBody(text), kChatLimits);
}

/// Returns the name of the field that is refused, or "" when the request is accepted.
std::string Fault(const std::string& path, const Json& body) {
  try {
    path == "chat" ? ParseChat(body) : ParseCompletion(body);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param.empty() ? error.what() : error.param;
  }
  return "";
}

Json Completion(const std::string& field, const Json& value) { return {{"prompt", "x"}, {field, value}}; }

TEST(OpenAiRequestTest, EveryField_AcceptsOnlyValuesWithinItsBounds) {
  struct Field {
    const char* name;
    std::vector<Json> good, bad;
  };
  const int64_t big = INT64_MAX;
  const std::vector<Field> fields = {
      {"n", {1, 128, nullptr}, {0, -1, 129, big, uint64_t{UINT64_MAX}, 1.5, "5", true, Json::array(), 1e308}},
      {"max_tokens", {1, 1.0, 4096, -1, nullptr}, {0, -2, 4097, big, 1.5, "1", false}},
      {"temperature", {0, 0.5, 2, nullptr}, {-0.1, 101, "1", true, Json::object()}},
      {"top_p", {0.1, 1}, {0, -1, 1.1, "x"}},
      {"top_k", {-1, 0, 5}, {-2, 1.5, "a", big}},
      {"min_p", {0, 1}, {-0.1, 1.1}},
      {"presence_penalty", {-2, 2}, {-2.1, 2.1, "0"}},
      {"frequency_penalty", {-2, 2}, {-2.1, 2.1}},
      {"repetition_penalty", {0.5, 1.2}, {0, -1, 1000}},
      {"seed", {0, -5, big}, {1.5, "x", uint64_t{UINT64_MAX}}},
      {"min_tokens", {0, 4096}, {-1, 4097}},
      {"logprobs", {0, 20, nullptr}, {-1, 21, true, "1"}},
      {"stop",
       {"a", Json::array({"a", "b"}), nullptr},
       {"", 5, Json::array({1}), Json(std::vector<std::string>(17, "a")), std::string(2000, 'a')}},
      {"stop_token_ids", {Json::array({0, 999})}, {5, Json::array({1000}), Json::array({-1}), Json::array({1.5})}},
      {"logit_bias",
       {Json::object(), Json{{"5", 1.5}}},
       {Json{{"1000", 1}}, Json{{"-1", 1}}, Json{{"x", 1}}, Json{{"5", 101}}, Json{{"5", "a"}}, Json::array()}},
      {"stream", {true, false}, {1, "true"}},
      {"echo", {true}, {1}},
      {"ignore_eos", {true}, {"yes"}},
      {"model", {"m"}, {5, Json::array()}},
      {"best_of", {1, 2, 128}, {0, 129, "x"}},
      {"cache_salt", {"", "mine"}, {5, std::string(257, 's')}},
      {"deadline_seconds", {0.5, 60}, {0, -1, "soon"}},
      {"keep_alive", {0, 0.5, -1, 300, 1e12, "5m", "-1", nullptr}, {"", "soon", true, Json::array()}},
      {"priority", {-1000, 0, 7}, {1.5, 1001, "high"}},
      {"suffix", {"", nullptr}, {"tail"}},
      {"use_beam_search", {false, true}, {1, "yes"}},
      {"chat_template", {nullptr}, {"x"}},
      {"guided_json", {nullptr, Json::object()}, {5, "{", Json{{"not", Json::object()}}}},
      {"response_format", {Json{{"type", "text"}}, Json{{"type", "json_object"}}}, {5, Json{{"type", "xml"}}}},
      {"guided_whitespace_pattern", {nullptr}, {" ?"}},
      {"grammar", {nullptr, ""}, {"root ::= x"}},
      {"reasoning_effort", {nullptr, "none"}, {"high"}},
      {"function_call", {"auto"}, {Json{{"name", "f"}}}},
      {"mirostat", {0, 0.0}, {2}},
      {"repeat_penalty", {1, 1.0}, {1.1}},
      {"max_new_tokens", {nullptr}, {5}},
      {"return_token_ids", {false, true}, {1}},
      {"return_tokens_as_token_ids", {false, true}, {"yes"}},
      {"prompt_logprobs", {0, 20, nullptr}, {-1, 21, true, "1"}},
      {"truncate_prompt_tokens", {-1, 1, INT32_MAX, nullptr}, {0, -2, 1.5, "1"}},
      {"allowed_token_ids",
       {Json::array(), Json(std::vector<int>(1024, 9))},
       {5, Json::array({1000}), Json(std::vector<int>(1025, 9))}},
      {"bad_words",
       {"a", Json::array({"a", "b"})},
       {"", 5, Json(std::vector<std::string>(65, "a")), std::string(257, 'a')}},
      {"unknown_field", {1, "x", Json::object()}, {}},
  };
  for (const auto& [name, good, bad] : fields) {
    for (const Json& value : good) EXPECT_EQ(Fault("completion", Completion(name, value)), "") << name << " " << value;
    for (const Json& value : bad) EXPECT_EQ(Fault("completion", Completion(name, value)), name) << name << " " << value;
  }
}

TEST(OpenAiRequestTest, IntegerFields_AcceptExactlyTheirRange) {
  struct Field {
    const char* name;
    int64_t low, high;
    bool chat = false;
  };
  constexpr int64_t kInt32 = INT32_MAX;
  for (const Field& f : std::vector<Field>{{"n", 1, 128},
                                           {"best_of", 1, 128},
                                           {"max_tokens", 1, 4096},
                                           {"max_completion_tokens", 1, 4096},
                                           {"min_tokens", 0, 4096},
                                           {"top_k", -1, kInt32},
                                           {"logprobs", 0, 20},
                                           {"priority", -1000, 1000},
                                           {"seed", INT64_MIN, INT64_MAX},
                                           {"top_logprobs", 0, 20, true}}) {
    const auto fault = [&](const Json& value) {
      if (!f.chat) return Fault("completion", Completion(f.name, value));
      return Fault(
          "chat",
          {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}, {"logprobs", true}, {f.name, value}});
    };
    std::vector<Json> good = {nullptr, f.low, f.high, f.low + 1, f.high - 1};
    std::vector<Json> bad = {
        uint64_t{INT64_MAX} + 1, uint64_t{UINT64_MAX}, 0x1p60,        1.5, -1e308, 1e308, true, false, "", "1",
        Json::array(),           Json::array({1}),     Json::object()};
    if (f.low > INT64_MIN) bad.insert(bad.end(), {f.low - 1, INT64_MIN, INT64_MIN + 1});
    if (f.high < INT64_MAX) bad.insert(bad.end(), {f.high + 1, INT64_MAX, INT64_MAX - 1});
    if (f.high < kInt32) bad.insert(bad.end(), {kInt32, int64_t{INT32_MIN}, int64_t{1} << 32, (int64_t{1} << 32) + 1});
    if (f.low > INT64_MIN) good.emplace_back(static_cast<double>(f.low + 1));
    for (const Json& value : good) EXPECT_EQ(fault(value), "") << f.name << " " << value;
    for (const Json& value : bad) EXPECT_EQ(fault(value), f.name) << f.name << " " << value;
  }
}

TEST(OpenAiRequestTest, TokenIds_AreRefused_OutsideTheVocabulary) {
  for (const Json& bad : std::vector<Json>{-1, 1000, INT64_MAX, INT64_MIN, uint64_t{UINT64_MAX}, int64_t{1} << 32, 1.5,
                                           1e308, true, "1", nullptr, Json::array({1})}) {
    EXPECT_EQ(Fault("completion", Completion("stop_token_ids", Json::array({0, bad}))), "stop_token_ids") << bad;
    EXPECT_EQ(Fault("completion", {{"prompt", Json::array({0, bad})}}), "prompt") << bad;
    EXPECT_EQ(Fault("completion", {{"prompt", Json::array({Json::array({0, bad})})}}), "prompt") << bad;
  }
  for (const char* key :
       {"1000", "-1", "+1", "1.0", "1e2", "0x1", "", " 1", "999999999", "9999999999", "18446744073709551617"}) {
    EXPECT_EQ(Fault("completion", Completion("logit_bias", Json{{key, 1}})), "logit_bias") << key;
  }
}

TEST(OpenAiRequestTest, NumberOfBeams_IsBestOfOrN) {
  const auto parse = [](Json fields) {
    fields["prompt"] = "x";
    fields["use_beam_search"] = true;
    return ParseCompletion(fields);
  };
  const GenerateCall call = parse({{"n", 2}, {"best_of", 5}, {"length_penalty", 0.5}, {"early_stopping", "never"}});
  ASSERT_TRUE(call.beams.has_value());
  EXPECT_EQ(call.beams->width, 5);
  EXPECT_EQ(call.num_delivered(), 2);
  EXPECT_EQ(call.beams->length_penalty, 0.5f);
  EXPECT_EQ(call.beams->early_stopping, EarlyStopping::kNever);
  EXPECT_EQ(parse({{"n", 3}}).beams->width, 3);
  EXPECT_FALSE(parse({{"n", 1}}).beams.has_value()) << "one beam is greedy";
  EXPECT_EQ(parse({{"n", 1}, {"temperature", 2}}).sampling.temperature, 0);
  EXPECT_THROW(parse({{"n", 21}}), ApiError);
  EXPECT_THROW(parse({{"n", 2}, {"min_tokens", 3}}), ApiError);
  EXPECT_THROW(parse({{"n", 2}, {"early_stopping", 1}}), ApiError);
}

TEST(OpenAiRequestTest, Prompt_IsAcceptedInFourForms) {
  const auto parse = [](const Json& prompt) { return ParseCompletion({{"prompt", prompt}}).prompts; };
  EXPECT_EQ(parse("hi").size(), 1u);
  EXPECT_EQ(parse({"a", "b"}).size(), 2u);
  EXPECT_EQ(std::get<1>(parse({1, 2, 3})[0]), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(parse(Json::array({Json::array({1}), Json::array({2, 3})})).size(), 2u);
  for (const Json& bad :
       {Json(5), Json::array(), Json::object(), Json::array({1, "a"}), Json::array({1000}), Json::array({-1}),
        Json::array({true}), Json(std::vector<std::string>(17, "a")), Json(std::vector<int>(4097, 1)), Json()}) {
    EXPECT_EQ(Fault("completion", {{"prompt", bad}}), "prompt") << bad;
  }
}

TEST(OpenAiRequestTest, Messages_AreCheckedAndNormalised) {
  const Json parts = Json::array({{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}});
  const auto call = ParseChat(
      {{"messages", Json::array({{{"role", "developer"}, {"content", "s"}}, {{"role", "user"}, {"content", parts}}})}});
  EXPECT_EQ(call.conversation.messages[0]["role"], "system");
  EXPECT_EQ(call.conversation.messages[1]["content"], "ab");
  const auto message = [](const Json& m) { return Json{{"messages", Json::array({m})}}; };
  for (const Json& bad :
       {message(5), message({{"role", "root"}, {"content", "x"}}), message({{"content", "x"}}),
        message({{"role", "user"}, {"content", 5}}),
        message({{"role", "user"}, {"content", Json::array({{{"type", "image_url"}, {"image_url", "http://x"}}})}}),
        Json{{"messages", Json::array()}}, Json{{"messages", "x"}}, Json::object()}) {
    EXPECT_EQ(Fault("chat", bad), "messages") << bad;
  }
  EXPECT_EQ(Fault("chat", Json::array()), "the body must be a JSON object");
}

TEST(OpenAiRequestTest, FurtherMembersOfMessages_AreShownToTheTemplateOrRefused) {
  const auto messages = [](Json more) {
    Json message = {{"role", "assistant"}, {"content", "x"}};
    message.update(more);
    return Json{{"messages", Json::array({message})}};
  };
  const Json shown = {{"name", "bob"}, {"reasoning_content", "because"}};
  const OrderedJson read = ParseChat(messages(shown)).conversation.messages[0];
  EXPECT_EQ(read["name"], "bob");
  EXPECT_EQ(read["reasoning_content"], "because");
  for (const Json& off :
       {Json{{"tool_calls", Json::array()}}, Json{{"tool_calls", nullptr}}, Json{{"refusal", nullptr}}})
    EXPECT_EQ(Fault("chat", messages(off)), "") << off;
  for (const Json& bad : {Json{{"tool_calls", {Json{{"id", "1"}}}}}, Json{{"tool_calls", 5}},
                          Json{{"tool_call_id", "1"}}, Json{{"function_call", Json::object()}}, Json{{"name", 5}},
                          Json{{"audio", Json::object()}}, Json{{"reasoning_content", Json::array()}}})
    EXPECT_EQ(Fault("chat", messages(bad)), "messages") << bad;
}

TEST(OpenAiRequestTest, EarlierToolCalls_KeepTheOrderOfTheirArguments) {
  const Json call = {
      {"function", {{"arguments", R"({"z": 1, "a": 2})"}, {"name", "f"}}}, {"id", "c1"}, {"type", "function"}};
  const Json messages = Json::array({{{"role", "user"}, {"content", "x"}},
                                     {{"role", "assistant"}, {"tool_calls", Json::array({call})}},
                                     {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "5"}}});
  const OrderedJson read = ParseChat({{"messages", messages}}).conversation.messages;
  EXPECT_EQ(read[1].dump(),
            R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
            R"("arguments":"{\"z\": 1, \"a\": 2}"}}]})");
  EXPECT_EQ(read[2].dump(), R"({"role":"tool","content":"5","tool_call_id":"c1"})");
}

TEST(OpenAiRequestTest, Tools_AreCheckedAndKeepTheOrderOfTheirMembers) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  const auto tool = [](const Json& function) { return Json{{"type", "function"}, {"function", function}}; };
  const auto ask = [&](const Json& tools) { return Json{{"messages", messages}, {"tools", tools}}; };
  const std::string body =
      R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f",)"
      R"( "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}]})";
  const GenerateCall call = ParseChatRequest(RequestBody(body), kChatLimits);
  EXPECT_EQ(call.conversation.tools[0]["function"]["parameters"]["properties"].dump(), R"({"z":{},"a":{}})");
  for (const Json& good : {Json::array(), Json::array({tool({{"name", "f"}})}),
                           Json::array({tool({{"name", "a.b/c:d-E_1"}, {"strict", true}, {"parameters", nullptr}})})})
    EXPECT_EQ(Fault("chat", ask(good)), "") << good;
  for (const Json& bad :
       {Json("x"), Json::array({5}), Json::array({Json{{"type", "web_search"}}}), Json::array({tool({{"name", ""}})}),
        Json::array({tool({{"name", "a b"}})}), Json::array({tool({{"name", std::string(129, 'a')}})}),
        Json::array({tool({{"name", "f"}, {"parameters", 5}})}), Json::array({tool({{"name", "f"}, {"strict", 1}})}),
        Json::array({tool({{"name", "f"}, {"parameters", {{"type", "array"}}}})}),
        Json::array({tool({{"name", "f"}}), tool({{"name", "f"}})}),
        Json::array({tool({{"name", "f"}, {"description", 1}})}), Json(std::vector<Json>(129, tool({{"name", "f"}})))})
    EXPECT_EQ(Fault("chat", ask(bad)), "tools") << bad;
}

TEST(OpenAiRequestTest, Integers_KeepTheirDigits_InToolsDocumentsAndTemplateVariables) {
  const std::string number = "123456789012345678901234567890";
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","maximum":)" + number + "}}}]";
  const std::string body = R"({"messages": [{"role": "user", "content": "x"}], "tools": )" + tools +
                           R"(, "documents": [{"id": )" + number + R"(}], "chat_template_kwargs": {"n": )" + number +
                           "}}";
  const GenerateCall call = ParseChatRequest(RequestBody(body), kChatLimits);
  EXPECT_EQ(DumpExactJson(call.conversation.tools), tools);
  EXPECT_EQ(LongInteger(call.tools.tools[0].parameters["maximum"]), number);
  EXPECT_EQ(DumpExactJson(call.conversation.documents), "[{\"id\":" + number + "}]");
  EXPECT_EQ(DumpExactJson(call.conversation.variables), "{\"n\":" + number + "}");
}

TEST(OpenAiRequestTest, ToolChoice_IsRefused_WhenItNamesNoOfferedTool) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  const Json tools = Json::array({Json{{"type", "function"}, {"function", {{"name", "f"}}}}});
  const auto named = [](const char* name) { return Json{{"type", "function"}, {"function", {{"name", name}}}}; };
  const auto fault = [&](const Json& choice, bool with_tools) {
    Json body = {{"messages", messages}, {"tool_choice", choice}};
    if (with_tools) body["tools"] = tools;
    return Fault("chat", body);
  };
  for (const Json& good : {Json("auto"), Json("none"), Json("required"), named("f"), Json()})
    EXPECT_EQ(fault(good, true), "") << good;
  for (const Json& bad : {Json("any"), Json(5), named("g"), Json::object(), Json{{"type", "function"}}})
    EXPECT_EQ(fault(bad, true), "tool_choice") << bad;
  for (const Json& harmless : {Json("auto"), Json("none")}) EXPECT_EQ(fault(harmless, false), "") << harmless;
  for (const Json& bad : {Json("required"), named("f")}) EXPECT_EQ(fault(bad, false), "tool_choice") << bad;
  const GenerateCall off = ParseChat({{"messages", messages}, {"tools", tools}, {"tool_choice", "none"}});
  EXPECT_FALSE(off.tools.active());
  EXPECT_TRUE(off.conversation.tools.is_null());
}

TEST(OpenAiRequestTest, AllowedTools_HideAllOtherTools) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  Json tools = Json::array();
  for (const char* name : {"f", "g", "h"}) tools.push_back({{"type", "function"}, {"function", {{"name", name}}}});
  const auto ask = [&](const Json& choice) {
    return ParseChat({{"messages", messages}, {"tools", tools}, {"tool_choice", choice}});
  };
  const Json one = {{"type", "function"}, {"function", {{"name", "h"}}}}, flat = {{"type", "function"}, {"name", "f"}};
  const GenerateCall call =
      ask({{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "required"}, {"tools", {one, flat}}}}});
  ASSERT_EQ(call.tools.tools.size(), 2U);
  EXPECT_EQ(call.tools.tools[0].name, "h");
  EXPECT_EQ(call.tools.tools[1].name, "f");
  EXPECT_EQ(call.tools.choice.mode, ToolChoice::kRequired);
  EXPECT_EQ(call.conversation.tools.size(), 2U);
  EXPECT_EQ(ask({{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", Json::array({flat})}}).tools.choice.mode,
            ToolChoice::kAuto);
  const GenerateCall twice = ask({{"type", "allowed_tools"}, {"tools", {flat, one, flat, one, one}}});
  ASSERT_EQ(twice.tools.tools.size(), 2U);
  EXPECT_EQ(twice.tools.tools[0].name, "f");
  EXPECT_EQ(twice.tools.tools[1].name, "h");
  EXPECT_EQ(twice.conversation.tools, OrderedJson(Json::array({tools[0], tools[2]})));
  const Json bad[] = {{{"type", "allowed_tools"}},
                      {{"type", "allowed_tools"}, {"allowed_tools", 5}},
                      {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", Json::array()}},
                      {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", Json::array({5})}},
                      {{"type", "allowed_tools"}, {"mode", "never"}, {"tools", Json::array({flat})}},
                      {{"type", "allowed_tools"}, {"tools", Json::array({{{"type", "function"}, {"name", "k"}}})}}};
  for (const Json& choice : bad)
    EXPECT_EQ(Fault("chat", {{"messages", messages}, {"tools", tools}, {"tool_choice", choice}}), "tool_choice");
}

TEST(OpenAiRequestTest, NamesOfEarlierCalls_HaveTheLengthLimitOfToolNames) {
  const auto fault = [](size_t bytes) {
    const Json function = {{"name", std::string(bytes, 'x')}, {"arguments", "{}"}};
    const Json calls = Json::array({{{"id", "a"}, {"type", "function"}, {"function", function}}});
    return Fault("chat", {{"messages", Json::array({{{"role", "user"}, {"content", "hi"}},
                                                    {{"role", "assistant"}, {"tool_calls", calls}},
                                                    {{"role", "tool"}, {"tool_call_id", "a"}, {"content", ""}}})}});
  };
  EXPECT_EQ(fault(kMaxToolNameBytes), "");
  EXPECT_EQ(fault(kMaxToolNameBytes + 1), "messages");
}

TEST(OpenAiRequestTest, ThinkingField_BecomesTheTemplateVariable_EnableThinking) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const auto variables = [&](const Json& thinking) {
    return ParseChat({{"messages", messages}, {"thinking", thinking}}).conversation.variables;
  };
  EXPECT_EQ(variables({{"type", "enabled"}}), (OrderedJson{{"enable_thinking", true}}));
  EXPECT_EQ(variables({{"type", "disabled"}}), (OrderedJson{{"enable_thinking", false}}));
  EXPECT_EQ(variables("disabled"), (OrderedJson{{"enable_thinking", false}}));
  EXPECT_EQ(variables({{"type", "auto"}}), OrderedJson());
  for (const Json& bad : {Json(5), Json("much"), Json::array(), Json::object(), Json{{"type", 1}}})
    EXPECT_EQ(Fault("chat", {{"messages", messages}, {"thinking", bad}}), "thinking");
  EXPECT_EQ(Fault("text", Completion("thinking", {{"type", "disabled"}})), "");
  EXPECT_EQ(Fault("text", Completion("thinking", {{"type", "enabled"}})), "thinking");
}

TEST(OpenAiRequestTest, RefusalsOfUnsupportedFields_NameTheRemedy) {
  for (const std::string_view name : UnsupportedFieldNames()) {
    try {
      ParseCompletion(Completion(std::string(name), {{"no", "such value"}}));
      ADD_FAILURE() << name << " is accepted";
    } catch (const ApiError& error) {
      EXPECT_NE(std::string(error.what()).find("is not supported by this server; "), std::string::npos) << error.what();
    }
  }
  for (const char* backend : {"auto", "xgrammar", "outlines"})
    EXPECT_EQ(Fault("text", Completion("guided_decoding_backend", backend)), "");
  EXPECT_EQ(Fault("text", Completion("truncation", "auto")), "");
  EXPECT_EQ(Fault("text", Completion("truncation", "half")), "truncation");
}

TEST(OpenAiRequestTest, InvalidTemplateVariables_AreRefused_WithTheFieldsName) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  const auto fault = [&](const char* name, const Json& value) {
    return Fault("chat", {{"messages", messages}, {name, value}});
  };
  EXPECT_EQ(fault("chat_template_kwargs", Json{{"enable_thinking", false}}), "");
  for (const Json& bad : {Json(5), Json{{"messages", 1}}, Json{{"bos_token", "x"}}})
    EXPECT_EQ(fault("chat_template_kwargs", bad), "chat_template_kwargs") << bad;
  EXPECT_EQ(fault("reasoning_effort", "high"), "");
  EXPECT_EQ(fault("reasoning_effort", "immense"), "reasoning_effort");
  EXPECT_EQ(fault("enable_thinking", 1), "enable_thinking");
  EXPECT_EQ(fault("documents", Json::array({"x"})), "documents");
  EXPECT_EQ(fault("include_reasoning", 1), "include_reasoning");
  const OrderedJson read =
      ParseChat({{"messages", messages}, {"enable_thinking", true}, {"chat_template_kwargs", {{"a", 1}}}})
          .conversation.variables;
  EXPECT_EQ(read.dump(), R"({"a":1,"enable_thinking":true})");
}

TEST(OpenAiRequestTest, MaxCompletionTokens_OverridesMaxTokens) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  EXPECT_EQ(ParseChat({{"messages", messages}, {"max_tokens", 5}, {"max_completion_tokens", 7}}).max_tokens, 7);
  EXPECT_EQ(ParseChat({{"messages", messages}, {"max_tokens", 5}}).max_tokens, 5);
  EXPECT_FALSE(ParseChat({{"messages", messages}}).max_tokens.has_value());
}

TEST(OpenAiRequestTest, PromptLogprobs_FollowEchoLogprobsAndPromptLogprobs) {
  const auto scored = [](Json more) {
    more["prompt"] = "x";
    return ParseCompletion(more).num_scored_top();
  };
  EXPECT_EQ(scored({{"logprobs", 3}}), -1);
  EXPECT_EQ(scored({{"echo", true}}), -1);
  EXPECT_EQ(scored({{"echo", true}, {"logprobs", 3}}), 3);
  EXPECT_EQ(scored({{"logprobs", 3}, {"prompt_logprobs", 2}}), 2);
  EXPECT_EQ(scored({{"echo", true}, {"logprobs", 3}, {"prompt_logprobs", 5}}), 5);
  EXPECT_TRUE(ParseCompletion({{"prompt", "x"}, {"echo", true}, {"max_tokens", 0}}).only_prompt());
  EXPECT_FALSE(ParseCompletion({{"prompt", "x"}, {"echo", true}}).only_prompt());
}

TEST(OpenAiRequestTest, DependentFields_AreRefused_WithoutTheFieldTheyNeed) {
  EXPECT_EQ(Fault("completion", {{"prompt", "x"}, {"stream_options", {{"include_usage", true}}}}), "stream_options");
  EXPECT_EQ(Fault("chat", {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}, {"top_logprobs", 3}}),
            "top_logprobs");
  EXPECT_EQ(Fault("completion", {{"prompt", "x"}, {"prompt_logprobs", 1}, {"stream", true}}), "prompt_logprobs");
  EXPECT_EQ(Fault("completion", {{"prompt", "x"}, {"max_tokens", 0}}), "max_tokens");
  EXPECT_EQ(Fault("chat", {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}, {"echo", true}}), "echo");
  EXPECT_EQ(Fault("completion", Completion("length_penalty", 2)), "length_penalty");
  EXPECT_EQ(Fault("completion", Completion("early_stopping", true)), "early_stopping");
  EXPECT_EQ(Fault("completion", {{"prompt", "x"}, {"length_penalty", 1.0}, {"early_stopping", false}}), "");
}

}  // namespace
}  // namespace quire
