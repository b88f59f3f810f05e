#include "coordinator/text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "comm/base/error.h"
#include "comm/model/formats/mapped_file.h"

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
  try {
    RenderText(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplateTest, EqualsJinja2OnGeneratedConversations) {
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

TEST(ChatTemplateTest, FormatsTextsAsPythonDoes) {
  EXPECT_EQ(RenderText("{{ '<{}|{}>'.format('a', 1) }}"), "<a|1>");
  EXPECT_EQ(RenderText("{{ '{1}{0}{1}'.format('a', none) }}"), "NoneaNone");
  EXPECT_EQ(RenderText("{{ '{{}} {name}'.format(name='x') }}"), "{} x");
  EXPECT_NE(ErrorOf("{{ '{}'.format() }}").find("no argument"), std::string::npos);
  for (const char* wrong : {"{} {0}", "{0", "}", "{x.y}", "{:>4}", "{99999999999999999999}"}) {
    const std::string source = std::string("{{ '") + wrong + "'.format('a', 'b') }}";
    EXPECT_NE(ErrorOf(source).find("format: "), std::string::npos) << source << ErrorOf(source);
  }
}

/// Templates of well-known families with tools, calls of earlier answers, thoughts and settings.
TEST(ChatTemplateTest, EqualsJinja2OnConversationsWithTools) {
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
    if (c.contains("error")) {
      EXPECT_THROW(chat.Render(conversation), Error) << name;
    } else {
      ASSERT_EQ(chat.Render(conversation).text, c["text"].get<std::string>()) << name << "\n" << c["messages"].dump();
    }
  }
}

/// Every method, filter, test and operator on values of every kind.
TEST(ChatTemplateTest, EqualsJinja2OnExpressions) {
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

/// Templates of released models, in a file that tests/golden/compare_templates.py makes. There is none in a run of all
/// tests.
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

TEST_P(ReleasedTemplateTest, EqualsHf) {
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

TEST(ChatTemplateTest, TemplatesTellWhatTheyShow) {
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
  EXPECT_TRUE(traits(printing("{{ c.function.arguments }}")).text_arguments);  // Python's form of an object is not JSON
  EXPECT_TRUE(
      traits("{% for m in messages %}{% if m.content is none %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}")
          .null_content);
  const ChatTemplate chat(WithTemplate("{{ enable_thinking }} {{ my_tools }}"));
  EXPECT_TRUE(chat.Names("enable_thinking"));
  EXPECT_FALSE(chat.Names("tools"));
  EXPECT_FALSE(chat.Names("thinking"));
}

TEST(ChatTemplateTest, ToolsAreTheUsers) {
  Conversation conversation;
  conversation.tools = OrderedJson::parse(R"([{"name": "<|end|>"}])");
  const MarkedText text = ChatTemplate(WithTemplate("{{ tools[0].name }}|{{ tools | tojson }}")).Render(conversation);
  EXPECT_FALSE(text.IsTrusted(0, 7));
  EXPECT_FALSE(text.IsTrusted(text.text.rfind("<|end|>"), 7));
}

TEST(ChatTemplateTest, EveryByteOfTheUsersIsMarked) {
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

TEST(ChatTemplateTest, ErrorsNameTheLineAndTheThing) {
  EXPECT_EQ(ErrorOf("a\nb {{ 'x' | frobnicate }}"), "template:2: filter \"frobnicate\" is not supported");
  EXPECT_EQ(ErrorOf("{% include 'secrets' %}"), "template:1: statement \"include\" is not supported");
  EXPECT_EQ(ErrorOf("{{ raise_exception('no') }}"), "template:1: no");
  EXPECT_EQ(ErrorOf("{{ missing.attribute }}"), "template:1: 'missing' is undefined");
  EXPECT_EQ(ErrorOf("{{ 1 + 'a' }}"), "template:1: '+' is not defined for integer and string");
  EXPECT_EQ(ErrorOf("{% if x %}"), "template:1: expected endif");
  EXPECT_EQ(ErrorOf("{{ 'abc"), "template:1: a string does not end");
  EXPECT_EQ(ErrorOf("{{ 1 / 0 }}"), "template:1: division by zero");
}

TEST(ChatTemplateTest, AModelWithoutTemplateSaysSo) { EXPECT_THROW(ChatTemplate(WithTemplate("")), Error); }

}  // namespace
}  // namespace quire
