#include "coordinator/text/chat_template.h"

#include <gtest/gtest.h>

#include "comm/error.h"
#include "comm/model/mapped_file.h"

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

TEST(ChatTemplateTest, RunawayTemplatesAreStopped) {
  EXPECT_EQ(ErrorOf("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
            "template:1: the template runs too long");
  EXPECT_NE(ErrorOf("{{ 'aaaaaaaaaaaaaaaa' * 100000000 }}").find("too long"), std::string::npos);
  EXPECT_NE(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("too deep"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(5000, '(') + "1" + std::string(5000, ')')).find("{{"), 0u);
  EXPECT_NE(ErrorOf("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{{ " + std::string(5000, '-') + "1 }}").find("template:"), std::string::npos);
  EXPECT_NE(ErrorOf("{% set l = [] %}{% set x = l.append(l) %}{{ l }}").find("hold itself"), std::string::npos);
  const std::string deep =
      "{% set n = namespace(x=[], y=[]) %}{% for i in range(90000) %}{% set n.x = [n.x] %}{% set n.y = [n.y] %}{% "
      "endfor %}";
  EXPECT_NE(ErrorOf(deep + "{{ n.x }}").find("nests deeper"), std::string::npos);
  EXPECT_NE(ErrorOf(deep + "{{ n.x == n.y }}").find("deeper"), std::string::npos);
}

TEST(ChatTemplateTest, HostileExpressionsAreRefusedNotCrashedOn) {
  const auto chain = [](const std::string& link, int count) {
    std::string out = "{{ 1";
    for (int i = 0; i < count; ++i) out += link;
    return out + " }}";
  };
  EXPECT_NE(ErrorOf(chain("**1", 50000)).find("nested too deep"), std::string::npos);
  EXPECT_NE(ErrorOf(chain("+1", 50000)).find("too long"), std::string::npos);
  EXPECT_NE(ErrorOf(chain("[0]", 50000)).find("too long"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ " + std::string(800000, ' ') + "1 }}"), "no error");
  std::string nots = "{{ ";
  for (int i = 0; i < 20000; ++i) nots += "not ";
  EXPECT_NE(ErrorOf(nots + "1 }}").find("too long"), std::string::npos);
  EXPECT_NE(ErrorOf("{% set n = namespace(x=1) %}{% set n.x = [n] %}").find("hold itself"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ [1] * 1100000 }}").find("too long a list"), std::string::npos);
  EXPECT_NE(ErrorOf("{% set x = [1] * 900000 %}{{ x + x }}").find("too long a list"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ ('a ' * 1100000).split() }}").find("too long a list"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ ('a ' * 1100000).split(' ') }}").find("too long a list"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ ('a' * 1100000)|list }}").find("too many characters"), std::string::npos);
  EXPECT_NE(ErrorOf("{{ '' * 900000000000000000 }}").find("too long"), std::string::npos);
  EXPECT_NE(ErrorOf("{% set ns = namespace(t='a' * 16000000) %}{% for i in range(100000) %}{% set ns.t = ns.t ~ '' "
                    "%}{% endfor %}")
                .find("too long"),
            std::string::npos);
}

TEST(ChatTemplateTest, AModelWithoutTemplateSaysSo) { EXPECT_THROW(ChatTemplate(WithTemplate("")), Error); }

}  // namespace
}  // namespace quire
