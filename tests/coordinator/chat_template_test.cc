#include "coordinator/text/templates/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/templates/adapted_conversation.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

TokenizerData WithTemplate(const std::string& source) {
  TokenizerData data;
  data.chat_template = source;
  data.bos_token = "<s>";
  data.eos_token = "</s>";
  return data;
}

std::string RenderText(const std::string& source, const Json& messages = Json::array()) {
  return ChatTemplate(WithTemplate(source)).Render(messages, true).text;
}

std::string ErrorOf(const std::string& source) {
  return ErrorThrownBy([&] { RenderText(source); }, "no error");
}

TEST(ChatTemplateTest, Render_EqualsJinja2_OnGeneratedConversations) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/templates.json";
  const Json cases = ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 200'000});
  ASSERT_GT(cases.size(), 250u);
  for (const Json& c : cases) {
    const ChatTemplate chat(WithTemplate(c["template"]));
    if (c.contains("error")) {
      EXPECT_THROW(chat.Render(c["messages"], c["add_generation_prompt"]), Error);
      continue;
    }
    ASSERT_EQ(chat.Render(c["messages"], c["add_generation_prompt"]).text, c["text"].get<std::string>())
        << c["template"].get<std::string>() << "\n"
        << DumpJson(c["messages"]);
  }
}

TEST(ChatTemplateTest, Render_FormatsTexts_AsPythonDoes) {
  EXPECT_EQ(RenderText("{{ '<{}|{}>'.format('a', 1) }}"), "<a|1>");
  EXPECT_EQ(RenderText("{{ '{1}{0}{1}'.format('a', none) }}"), "NoneaNone");
  EXPECT_EQ(RenderText("{{ '{{}} {name}'.format(name='x') }}"), "{} x");
  EXPECT_NE(ErrorOf("{{ '{}'.format() }}").find("no argument"), std::string::npos);
  for (const char* wrong : {"{} {0}", "{0", "}", "{x.y}", "{:>4}", "{99999999999999999999}"}) {
    const std::string source = std::string("{{ '") + wrong + "'.format('a', 'b') }}";
    EXPECT_NE(ErrorOf(source).find("format: "), std::string::npos) << source << ErrorOf(source);
  }
}

/// Compares templates of well-known model families with Jinja2, on conversations with tools, earlier calls, reasoning
/// and settings.
TEST(ChatTemplateTest, Render_EqualsJinja2_OnConversationsWithTools) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/tool_templates.json";
  const OrderedJson golden = OrderedJson::parse(ReadTextFile(path, 16 << 20));
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const OrderedJson& c : golden["cases"]) {
    const std::string name = c["template"];
    const ChatTemplate chat(WithTemplate(golden["templates"][name]));
    EXPECT_TRUE(chat.traits().tools && chat.traits().tool_calls) << name;
    EXPECT_EQ(chat.traits().text_arguments, name == "deepseek");
    Conversation conversation;
    conversation.messages = c["messages"];
    conversation.variables = c["variables"];
    if (c["tools"].get<bool>()) conversation.tools = golden["tools"];
    const bool has_several = std::ranges::any_of(c["messages"], [](const OrderedJson& message) {
      return message.contains("tool_calls") && message["tool_calls"].size() > 1;
    });
    EXPECT_EQ(chat.traits().one_call, name == "llama" || name == "harmony") << name;
    if (chat.traits().one_call && has_several) {
      EXPECT_NO_THROW(chat.Render(conversation)) << name;  // Quire adapts the conversation, HF does not
    } else if (c.contains("error")) {
      EXPECT_THROW(chat.Render(conversation), Error) << name;
    } else {
      ASSERT_EQ(chat.Render(conversation).text, c["text"].get<std::string>()) << name << "\n" << c["messages"].dump();
    }
  }
}

TEST(ChatTemplateTest, JoinedTemplates_UseTheToolTemplate_ForConversationsWithToolsOrCalls) {
  const ChatTemplate chat(WithTemplate(JoinedTemplates(
      "{% for m in messages %}\n {{ m.content }}{% endfor %}\n",
      "{%- macro one(m) %}<{{ m.content }}>{% endmacro %}{{ tools }}{% for m in messages %}{{ one(m) }}{% endfor %}")));
  Conversation conversation;
  conversation.messages = OrderedJson::parse(R"([{"role": "user", "content": "hi"}])");
  EXPECT_EQ(chat.Render(conversation).text, " hi");
  conversation.messages.push_back(
      OrderedJson::parse(R"({"role": "assistant", "content": "x",)"
                         R"( "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]})"));
  EXPECT_TRUE(chat.Render(conversation).text.find("<hi>") != std::string::npos) << chat.Render(conversation).text;
  EXPECT_EQ(JoinedTemplates("a", ""), "a");
  EXPECT_EQ(JoinedTemplates("", "b"), "b");
}

/// Applies every method, filter, test and operator to values of every type.
TEST(ChatTemplateTest, Render_EqualsJinja2_OnExpressions) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/expressions.json";
  const OrderedJson golden = OrderedJson::parse(ReadTextFile(path, 16 << 20));
  ASSERT_GT(golden["cases"].size(), 2000u);
  for (const OrderedJson& c : golden["cases"]) {
    Conversation conversation;
    conversation.variables = golden["variables"];
    std::string text;
    bool refused = false;
    try {
      text = ChatTemplate(WithTemplate(c[0])).Render(conversation).text;
    } catch (const Error& error) {
      text = error.what();
      refused = true;
    }
    EXPECT_EQ(refused, c[1].is_null()) << c[0] << "\n" << text;
    if (!refused && !c[1].is_null()) {
      EXPECT_EQ(text, c[1].get<std::string>()) << c[0];
    }
  }
}

/// Returns the templates of released models, from the file that tests/golden/compare_templates.py writes and that
/// QUIRE_TEST_TEMPLATES names; null if this variable is not set, as in a run of all tests.
OrderedJson ReleasedTemplates() {
  const char* path = std::getenv("QUIRE_TEST_TEMPLATES");
  return path == nullptr ? OrderedJson() : OrderedJson::parse(ReadTextFile(path, size_t{1} << 30));
}

std::vector<std::string> NamesOfReleasedTemplates() {
  std::vector<std::string> names;
  const OrderedJson released = ReleasedTemplates();
  if (!released.is_null()) {
    for (const auto& [name, source] : released["templates"].items()) names.push_back(name);
  }
  return names;
}

class ReleasedTemplateTest : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReleasedTemplateTest);

TEST_P(ReleasedTemplateTest, RenderedText_EqualsThatOfHf) {
  const OrderedJson released = ReleasedTemplates();
  const ChatTemplate chat(WithTemplate(released["templates"][GetParam()]));
  const size_t way = (chat.traits().null_content ? 2 : 0) + (chat.traits().text_arguments ? 1 : 0);
  for (const OrderedJson& c : released["cases"]) {
    if (c["template"] != GetParam()) continue;
    Conversation conversation;
    conversation.messages = c["messages"];
    conversation.tools = c["tools"];
    conversation.variables = c["settings"];
    if (conversation.variables.contains("add_generation_prompt")) {
      conversation.add_generation_prompt = conversation.variables["add_generation_prompt"];
    }
    if (conversation.variables.contains("documents")) conversation.documents = conversation.variables["documents"];
    conversation.variables.erase("documents");
    const OrderedJson& expected = c["texts"][way];
    std::string text;
    bool refused = false;
    try {
      text = chat.Render(conversation).text;
    } catch (const Error& error) {
      text = error.what();
      refused = true;
    }
    ASSERT_EQ(refused, expected.is_null()) << text << "\n" << c["messages"].dump() << c["settings"].dump();
    if (!refused) {
      ASSERT_EQ(text, expected.get<std::string>()) << c["messages"].dump() << c["settings"].dump();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ReleasedTemplateTest, testing::ValuesIn(NamesOfReleasedTemplates()),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::ranges::replace_if(
                               word, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return word;
                         });

/// Returns the error of a template file with this text, or "" when the template can be used.
std::string ErrorOfFile(const std::string& source) {
  const std::string path = testing::TempDir() + "chat.jinja";
  WriteTextFile(path, source);
  const std::string error = ErrorThrownBy([&] { EXPECT_EQ(ReadChatTemplate(path), source); }, "");
  return error.starts_with(path) ? error.substr(path.size()) : error;
}

TEST(ChatTemplateTest, ReadChatTemplate_NamesFileAndLine_WhenTheTemplateCannotBeUsed) {
  EXPECT_EQ(ErrorOfFile("{% for m in messages %}{{ m.content }}{% endfor %}"), "");
  EXPECT_EQ(ErrorOfFile("{# one\ntwo #}\n{% if %}").substr(0, 3), ":3:");
  EXPECT_EQ(ErrorOfFile("\n{{ messages | nonsense }}").substr(0, 3), ":2:");
  EXPECT_EQ(ErrorOfFile("{{ raise_exception('never') }}"), ":1: never");
  EXPECT_NE(ErrorOfFile("").find("is empty"), std::string::npos);
  EXPECT_NE(ErrorOfFile("\xff").find("UTF-8"), std::string::npos);
  EXPECT_NE(ErrorThrownBy([] { ReadChatTemplate("/nowhere/chat.jinja"); }).find("/nowhere/chat.jinja"),
            std::string::npos);
}

TEST(ChatTemplateTest, Tools_AreWrittenIntoTheSystemMessage_WhenTheTemplateReadsThemThere) {
  const ChatTemplate chat(
      WithTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'system' and m.tools %}"
                   "<|tool|>{{ m.tools }}<|/tool|>{% endif %}{% endfor %}"));
  EXPECT_TRUE(chat.traits().tools && chat.traits().system_tools);
  Conversation asked;
  asked.messages = {{{"role", "user"}, {"content", "hi"}}};
  EXPECT_EQ(chat.Render(asked).text, "<user>hi");
  asked.tools = OrderedJson::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  EXPECT_EQ(chat.Render(asked).text,
            "<system>You are a helpful assistant with some tools.<|tool|>[{\"name\":\"f\"}]<|/tool|><user>hi");
  asked.messages.insert(asked.messages.begin(), OrderedJson{{"role", "system"}, {"content", "Be brief."}});
  EXPECT_EQ(chat.Render(asked).text, "<system>Be brief.<|tool|>[{\"name\":\"f\"}]<|/tool|><user>hi");
}

TEST(ChatTemplateTest, Traits_TellWhetherTheTemplateShowsSystemMessagesAndToolResults) {
  const auto traits = [](const std::string& source) { return ChatTemplate(WithTemplate(source)).traits(); };
  const TemplateTraits all = traits("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(all.shows_system && all.tool_results);
  const TemplateTraits few = traits(
      "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no ' + m.role) }}{% "
      "endif %}"
      "{{ m.content }}{% endfor %}");
  EXPECT_FALSE(few.shows_system || few.tool_results);
}

TEST(ChatTemplateTest, Traits_TellWhichPartsOfAConversationTheTemplateShows) {
  const auto traits = [](const std::string& source) { return ChatTemplate(WithTemplate(source)).traits(); };
  const std::string words = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_FALSE(traits(words).tools);
  EXPECT_TRUE(traits("{{ tools | tojson }}" + words).tools);
  EXPECT_FALSE(traits("{{ tools | tojson }}" + words).tool_calls);
  const auto printing = [](const char* what) {
    return std::string("{% for m in messages %}{% for c in m.tool_calls or [] %}") + what + "{% endfor %}{% endfor %}";
  };
  EXPECT_FALSE(traits(printing("{{ c.function.arguments | tojson }}")).text_arguments);
  EXPECT_TRUE(traits(printing("{{ 'x' + c.function.arguments }}")).text_arguments);
  // Python prints an object in a form that is not JSON, so this template, too, needs the arguments as text.
  EXPECT_TRUE(traits(printing("{{ c.function.arguments }}")).text_arguments);
  EXPECT_TRUE(
      traits("{% for m in messages %}{% if m.content is none %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}")
          .null_content);
  const ChatTemplate chat(WithTemplate("{{ enable_thinking }} {{ my_tools }}"));
  EXPECT_TRUE(chat.Names("enable_thinking"));
  EXPECT_FALSE(chat.Names("tools"));
  EXPECT_FALSE(chat.Names("thinking"));
}

/// Returns a conversation: a question, an assistant's answer with these members, and the results of its calls.
Conversation Called(OrderedJson answer) {
  Conversation conversation;
  const OrderedJson calls = answer["tool_calls"];
  answer["role"] = "assistant";
  conversation.messages = OrderedJson::array({{{"role", "user"}, {"content", "ask"}}, std::move(answer)});
  for (size_t i = 0; i < calls.size(); ++i) {
    conversation.messages.push_back(
        {{"role", "tool"}, {"tool_call_id", calls[i]["id"]}, {"content", "result " + std::to_string(i)}});
  }
  return conversation;
}

OrderedJson CallOf(const std::string& arguments, const std::string& id = "call_1") {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
}

constexpr const char* kEachCall = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
constexpr const char* kEndCalls = "{% endfor %}{% endfor %}";

std::string RenderCalled(const std::string& source, const OrderedJson& answer) {
  return ChatTemplate(WithTemplate(source)).Render(Called(answer)).text;
}

TEST(ChatTemplateTest, CallIds_NameTheirFunctions_WhenTheTemplateShowsIdsInPlaceOfNames) {
  const std::string source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}<{{ c.id }}>{{ c.function.arguments }}{% endfor %}"
      "{% if m.role == 'tool' %}[{{ m.tool_call_id }}]{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_TRUE(ChatTemplate(WithTemplate(source)).traits().named_ids);
  const OrderedJson calls = {CallOf("{}", "call_b"), CallOf("{\"a\":1}", "call_a")};
  EXPECT_EQ(RenderCalled(source, {{"content", ""}, {"tool_calls", calls}}),
            "<functions.f:0>{}<functions.f:1>{\"a\":1}[functions.f:0]result 0[functions.f:1]result 1");
  const std::string named =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}<{{ c.id }}>{{ "
      "c.function.arguments }}"
      "{% endfor %}{% endfor %}";
  EXPECT_FALSE(ChatTemplate(WithTemplate(named)).traits().named_ids);
}

TEST(ChatTemplateTest, Adapting_ReportsTheBytesOfIds_BeforeMakingTheIds) {
  TemplateTraits traits;
  traits.named_ids = true;
  Conversation called = Called({{"content", ""}, {"tool_calls", {CallOf("{}")}}});
  size_t bytes = 0;
  (void)AdaptedTo(traits, called, [&](size_t more) { bytes += more; });
  const std::string id = called.messages[1]["tool_calls"][0]["id"];
  const std::string name = called.messages[1]["tool_calls"][0]["function"]["name"];
  EXPECT_EQ(bytes, 2 * name.size() + ("functions." + name + ":0").size());
  EXPECT_THROW(AdaptedTo(traits, called,
                         [](size_t more) {
                           if (more > 0) throw Error("too much");
                         }),
               Error);
}

TEST(ChatTemplateTest, Arguments_BecomeAnObject_WhenTheTemplateIteratesOverThem) {
  const std::string walks =
      std::string(kEachCall) + "{% for k, v in c.function.arguments|items %}{{ k }}={{ v }};{% endfor %}" + kEndCalls;
  const std::string reads = std::string(kEachCall) + "{% set a = c.function.arguments | from_json %}" +
                            "{{ '' + c.function.arguments }}{% for k, v in a|items %}{{ k }}={{ v }};{% endfor %}" +
                            kEndCalls;
  EXPECT_TRUE(ChatTemplate(WithTemplate(walks)).traits().object_arguments);
  EXPECT_TRUE(ChatTemplate(WithTemplate(reads)).traits().object_arguments);
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "{\"a\":";
  for (const char* none : {"", "  ", "null", " null\n", "{}"})
    EXPECT_EQ(RenderCalled(walks, {{"content", ""}, {"tool_calls", {CallOf(none)}}}), "") << none;
  EXPECT_EQ(RenderCalled(walks, {{"content", ""}, {"tool_calls", {CallOf(R"({"b": "x", "a": 1})")}}}), "b=x;a=1;");
  for (const std::string& broken :
       std::vector<std::string>{R"({"value": "ab)", "[1]", "7", "\"text\"", "so", "{\"a\":1}x", R"({"a":1,"a":2})",
                                "{\"a\":1e999}", deep, "nul", "{'a': 1}"}) {
    EXPECT_EQ(RenderCalled(walks, {{"content", ""}, {"tool_calls", {CallOf(broken)}}}), "INVALID_JSON=" + broken + ";");
    const std::string read = RenderCalled(reads, {{"content", ""}, {"tool_calls", {CallOf(broken)}}});
    EXPECT_TRUE(read.ends_with("}INVALID_JSON=" + broken + ";")) << read;
  }
}

TEST(ChatTemplateTest, Arguments_KeepTheirOriginalText_WhenTheTemplatePrintsText) {
  const std::string either =
      std::string(kEachCall) +
      "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}" + kEndCalls;
  EXPECT_FALSE(ChatTemplate(WithTemplate(either)).traits().object_arguments);
  EXPECT_EQ(RenderCalled(either, {{"content", ""}, {"tool_calls", {CallOf("{\"value\": \"ab")}}}), "{\"value\": \"ab");
  EXPECT_EQ(RenderCalled(either, {{"content", ""}, {"tool_calls", {CallOf("null")}}}), "{}");
}

TEST(ChatTemplateTest, Integers_KeepTheirDigits_HoweverLong) {
  const std::string shows =
      std::string("{{ tools | tojson }}{{ x }}") + kEachCall + "{{ c.function.arguments | tojson }}" + kEndCalls;
  const ChatTemplate chat(WithTemplate(shows));
  for (const std::string number : {"9223372036854775807", "9223372036854775808", "18446744073709551615",
                                   "18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"}) {
    Conversation conversation = Called({{"content", ""}, {"tool_calls", {CallOf("{\"id\": " + number + "}")}}});
    conversation.tools = ParseExactJson("[{\"enum\": [" + number + "]}]");
    conversation.variables = ParseExactJson("{\"x\": " + number + "}");
    const std::string list = "[{\"enum\": [" + number + "]}]";
    EXPECT_EQ(chat.Render(conversation).text, list + number + "{\"id\": " + number + "}");
  }
  Conversation conversation;
  conversation.variables =
      ParseExactJson(R"({"x": 18446744073709551616, "y": 18446744073709551616, "z": 18446744073709551617})");
  const ChatTemplate asks(
      WithTemplate("{{ x == y }} {{ x == z }} {{ x > 1 }} {{ x is integer }} {{ x | int }} {{ x | string | length }}"));
  EXPECT_EQ(asks.Render(conversation).text, "True False True True 18446744073709551616 20");
}

TEST(ChatTemplateTest, Content_IsJoinedToReasoning_WhenTheTemplateAcceptsOnlyOneOfTheTwo) {
  const std::string source =
      "{% for m in messages %}{% if m.tool_calls %}{% if m.content and m.thinking %}{{ raise_exception('both') }}{% "
      "endif %}"
      "<{{ m.thinking or m.content }}>{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}";
  const ChatTemplate chat(WithTemplate(source));
  EXPECT_TRUE(chat.traits().words_or_thoughts);
  const auto shown = [&](const char* words, const char* thoughts) {
    OrderedJson answer = {{"content", words}, {"tool_calls", {CallOf("{}")}}};
    if (thoughts != nullptr)
      for (const char* name : {"reasoning_content", "reasoning", "thinking"}) answer[name] = thoughts;
    return chat.Render(Called(answer)).text;
  };
  EXPECT_EQ(shown("Let me look.", "I need it."), "<I need it.\n\nLet me look.>{}");
  EXPECT_EQ(shown("Let me look.", nullptr), "<Let me look.>{}");
  EXPECT_EQ(shown("", "I need it."), "<I need it.>{}");
}

TEST(ChatTemplateTest, LaterSystemMessages_JoinUserMessagesOrToolResults_WhenTheTemplateAllowsOnlyTheFirst) {
  Conversation conversation;
  conversation.messages = OrderedJson::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
      {"role": "system", "content": "t"}, {"role": "assistant", "content": "b"}, {"role": "system", "content": "u"},
      {"role": "user", "content": "c"}, {"role": "tool", "content": "d"}, {"role": "system", "content": "v"}])");
  const std::string shows = "{{ m.role[0] }}:{{ m.content }};{% endfor %}";
  const ChatTemplate any(WithTemplate("{% for m in messages %}" + shows));
  EXPECT_FALSE(any.traits().system_first);
  EXPECT_EQ(any.Render(conversation).text, "s:s;u:a;s:t;a:b;s:u;u:c;t:d;s:v;");
  const std::string first = "s:s;u:a\n\nt;a:b;u:u\n\nc;t:d\n\nv;";
  for (const char* other : {"{{ raise_exception('first') }}", "{% continue %}"}) {
    const ChatTemplate chat(WithTemplate("{% for m in messages %}{% if m.role == 'system' and not loop.first %}" +
                                         std::string(other) + "{% endif %}" + shows));
    EXPECT_TRUE(chat.traits().system_first) << other;
    EXPECT_EQ(chat.Render(conversation).text, first) << other;
  }
  const ChatTemplate none(
      WithTemplate("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('none') }}"
                   "{% endif %}" +
                   shows));
  EXPECT_TRUE(none.traits().system_first);
  EXPECT_ANY_THROW(none.Render(conversation));
  conversation.messages.erase(0);
  EXPECT_EQ(none.Render(conversation).text, first.substr(4));
}

TEST(ChatTemplateTest, Content_BecomesAMessageOfItsOwn_WhenItWouldHideCalls) {
  const ChatTemplate chat(WithTemplate(
      "{% for m in messages %}{% if m.tool_calls and not m.content %}{{ m.tool_calls[0].function.arguments | tojson }};"
      "{% else %}{{ m.content }};{% endif %}{% endfor %}"));
  EXPECT_TRUE(chat.traits().words_apart);
  EXPECT_EQ(chat.Render(Called({{"content", "So"}, {"tool_calls", {CallOf("{}")}}})).text, "ask;So;{};result 0;");
  EXPECT_EQ(chat.Render(Called({{"content", ""}, {"tool_calls", {CallOf("{}")}}})).text, "ask;{};result 0;");
}

TEST(ChatTemplateTest, Calls_AreRenderedOneByOne_WhenTheTemplateAcceptsOneCallPerMessage) {
  for (const char* refuses : {"{% if m.tool_calls|length != 1 %}{{ raise_exception('one') }}{% endif %}", ""}) {
    const ChatTemplate chat(WithTemplate(std::string("{% for m in messages %}{% if m.tool_calls %}") + refuses +
                                         "[{{ m.content }}|{{ m.tool_calls[0].function.arguments | tojson }}]"
                                         "{% else %}{{ m.content }};{% endif %}{% endfor %}"));
    EXPECT_TRUE(chat.traits().one_call);
    Conversation conversation =
        Called({{"content", "So"}, {"tool_calls", {CallOf("{\"a\": 1}", "x"), CallOf("{\"a\": 2}", "y")}}});
    EXPECT_EQ(chat.Render(conversation).text, "ask;[So|{\"a\": 1}]result 0;[|{\"a\": 2}]result 1;");
    std::swap(conversation.messages[2], conversation.messages[3]);
    EXPECT_EQ(chat.Render(conversation).text, "ask;[So|{\"a\": 1}]result 0;[|{\"a\": 2}]result 1;");
    conversation.messages.erase(2);
    EXPECT_EQ(chat.Render(conversation).text, "ask;[So|{\"a\": 1}]result 0;[|{\"a\": 2}]");
  }
}

TEST(ChatTemplateTest, CallIds_AreShortened_WhenTheTemplateWantsNineLetters) {
  const ChatTemplate chat(
      WithTemplate("{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}{{ "
                   "raise_exception('id') }}{% endif %}"
                   "{{ c.id }}{{ c.function.arguments | tojson }}{% endfor %}{% if m.role == 'tool' %}={{ "
                   "m.tool_call_id }};{% endif %}{% endfor %}"));
  EXPECT_TRUE(chat.traits().short_ids);
  EXPECT_EQ(chat.Render(Called({{"content", ""}, {"tool_calls", {CallOf("{}", "abcdefghi")}}})).text,
            "abcdefghi{}=abcdefghi;");
  const std::string text =
      chat.Render(Called({{"content", ""}, {"tool_calls", {CallOf("{}", "toolu_0123456789")}}})).text;
  ASSERT_EQ(text.size(), 9u + 2 + 1 + 9 + 1) << text;
  EXPECT_EQ(text.substr(0, 9), text.substr(12, 9));
}

TEST(ChatTemplateTest, EmptyAnswer_IsInsertedAfterToolResults_WhenTheTemplateNeedsAlternatingRoles) {
  const ChatTemplate chat(WithTemplate(
      "{% set n = namespace(i=0) %}{% for m in messages %}{% if m.role != 'tool' and not m.tool_calls %}"
      "{% if (m.role == 'user') != (n.i % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
      "{% set n.i = n.i + 1 %}{% endif %}{{ m.role[0] }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.arguments | tojson }}{% endfor %}{{ m.content or '' }};{% endfor %}"));
  EXPECT_TRUE(chat.traits().answered_results);
  Conversation conversation = Called({{"content", ""}, {"tool_calls", {CallOf("{}")}}});
  conversation.messages.push_back({{"role", "user"}, {"content", "more"}});
  EXPECT_EQ(chat.Render(conversation).text, "uask;a{};tresult 0;a;umore;");
  conversation.messages.erase(2);  // the call has no result
  EXPECT_EQ(chat.Render(conversation).text, "uask;a{};a;umore;");
  conversation.messages.erase(1);
  EXPECT_THROW(chat.Render(conversation), Error);  // HF refuses this conversation, too
}

TEST(ChatTemplateTest, EmptyAnswers_GetASpace_WhenTheTemplateNeedsText) {
  const ChatTemplate chat(
      WithTemplate("{% for m in messages %}{% if m.role == 'assistant' and not m.content and not m.tool_calls %}"
                   "{{ raise_exception('words') }}{% endif %}{{ m.role[0] + (m.content or '') }};{% endfor %}"));
  EXPECT_TRUE(chat.traits().speaking_answers);
  for (const OrderedJson& content : {OrderedJson(""), OrderedJson()}) {
    Conversation conversation;
    conversation.messages = {{{"role", "user"}, {"content", "ask"}},
                             {{"role", "assistant"}, {"content", content}, {"reasoning_content", "Hm"}},
                             {{"role", "user"}, {"content", "more"}}};
    EXPECT_EQ(chat.Render(conversation).text, "uask;a ;umore;");
  }
}

TEST(ChatTemplateTest, Functions_GainMissingMembers_WhenTheTemplateNeedsThem) {
  const auto shown = [](const std::string& source, const char* function) {
    Conversation conversation;
    conversation.tools =
        OrderedJson::parse(std::string(R"([{"type":"function","function":{"name":"f")") + function + "}}]");
    return ChatTemplate(WithTemplate(source)).Render(conversation).text;
  };
  const char* const sparse[] = {"", R"(,"description":null,"parameters":null)", R"(,"parameters":{})",
                                R"(,"parameters":{"type":"object"})", R"(,"description":"d")"};
  const std::string begin = "{% for t in tools or [] %}{% set f = t.function %}{{ f.name + ':' }}",
                    end = "{% endfor %}";
  for (const std::string needs :
       {"{{ f.description + '.' }}", "{{ f.parameters | tojson }}", "{{ f.parameters.properties | tojson }}",
        "{{ f['description'] + '.' }}{% for k, v in f.parameters.properties|items %}{{ k }}{% endfor %}"}) {
    for (const char* function : sparse)
      EXPECT_TRUE(shown(begin + needs + end, function).starts_with("f:")) << needs << function;
  }
  const std::string shows_all = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}";
  EXPECT_EQ(shown(shows_all, ""),
            R"({"type": "function", "function": {"name": "f"}})");  // nothing is added without need
  const std::string properties =
      begin +
      "{% for k, v in f.parameters.properties|items %}{{ k + v.description }}{{ v.type in ['null'] }};{% endfor %}" +
      end;
  for (const char* schema :
       {R"({"type":["string","null"]})", "true", R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "{}"}) {
    const std::string function = std::string(R"(,"parameters":{"type":"object","properties":{"k":)") + schema + "}}";
    EXPECT_EQ(shown(properties, function.c_str()), "f:kFalse;") << schema;
  }
  const std::string nested =
      "{% macro kind(s) %}{% if s.type == 'object' %}{{ 'of ' + kind(s.additionalProperties) }}"
      "{% elif s.type == 'array' %}{{ 'list of ' + kind(s['items']) }}{% else %}{{ s.type + s.description }}{% endif %}"
      "{% for k, v in (s.properties or {})|items %}({{ k + ' ' + kind(v) }}){% endfor %}{% endmacro %}" +
      begin + "{% for k, v in f.parameters.properties|items %}{{ k + ' ' + kind(v) }};{% endfor %}" + end;
  EXPECT_EQ(shown(nested, R"(,"parameters":{"type":"object","properties":{"k":{"type":"object","properties":)"
                          R"({"a":{"type":"array"},"b":{"type":["null","integer"]}},"additionalProperties":false}}})"),
            "f:k of string(a list of string)(b integer);");
}

TEST(ChatTemplateTest, Tools_AreMarkedAsUserText) {
  Conversation conversation;
  conversation.tools = OrderedJson::parse(R"([{"name": "<|end|>"}])");
  const MarkedText text = ChatTemplate(WithTemplate("{{ tools[0].name }}|{{ tools | tojson }}")).Render(conversation);
  EXPECT_FALSE(text.IsTrusted(0, 7));
  EXPECT_FALSE(text.IsTrusted(text.text.rfind("<|end|>"), 7));
}

TEST(ChatTemplateTest, MessageContent_IsMarkedAsUserText_ByteByByte) {
  const std::string source =
      "{% for m in messages %}[{{ m.role | upper }}: {{ m.content | trim | replace('a', 'b') }}|{{ m | tojson }}]{% "
      "endfor %}";
  const Json messages = Json::array({{{"role", "user"}, {"content", "  xaxx<|end|>x\"xx "}}});
  const MarkedText out = ChatTemplate(WithTemplate(source)).Render(messages, false);
  ASSERT_EQ(out.text.size(), out.marks.size());
  for (size_t i = 0; i < out.text.size(); ++i) {
    if (out.text[i] == 'x') {
      EXPECT_EQ(out.marks[i], MarkedText::kFromUser) << i;
    }
    if (out.text[i] == '[' || out.text[i] == '|') {
      const bool from_user = i > 0 && (out.text[i - 1] == '<' || out.text[i + 1] == '>');
      EXPECT_EQ(out.marks[i] == MarkedText::kFromUser, from_user) << out.text.substr(i, 5);
    }
  }
}

TEST(ChatTemplateTest, Errors_NameTheLineAndTheUnsupportedPart) {
  EXPECT_EQ(ErrorOf("a\nb {{ 'x' | frobnicate }}"), "template:2: filter \"frobnicate\" is not supported");
  EXPECT_EQ(ErrorOf("{% include 'secrets' %}"), "template:1: statement \"include\" is not supported");
  EXPECT_EQ(ErrorOf("{{ raise_exception('no') }}"), "template:1: no");
  EXPECT_EQ(ErrorOf("{{ missing.attribute }}"), "template:1: 'missing' is undefined");
  EXPECT_EQ(ErrorOf("{{ 1 + 'a' }}"), "template:1: '+' is not defined for integer and string");
  EXPECT_EQ(ErrorOf("{% if x %}"), "template:1: expected endif");
  EXPECT_EQ(ErrorOf("{{ 'abc"), "template:1: a string does not end");
  EXPECT_EQ(ErrorOf("{{ 1 / 0 }}"), "template:1: division by zero");
}

TEST(ChatTemplateTest, Constructor_Throws_WithoutATemplate) { EXPECT_THROW(ChatTemplate(WithTemplate("")), Error); }

}  // namespace
}  // namespace quire
