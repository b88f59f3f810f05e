// Tests that rendering stops, with an error that names the limit, when a template takes too long, makes too many bytes
// or is nested too deeply. Also tests that long conversations are rendered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>

#include "comm/base/error.h"
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/templates/chat_template.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStack = 8 << 20;  // with AddressSanitizer, stack frames are several times as large
constexpr bool kCountsMemory = false;
#else
constexpr size_t kStack = 1 << 20;
constexpr bool kCountsMemory = true;
#endif

MarkedText RenderWith(const std::string& source, const Json& messages) {
  TokenizerData data;
  data.chat_template = source;
  return ChatTemplate(data).Render(messages, true);
}

std::string TemplateError(const std::string& source, const Json& messages = Json::array()) {
  return ErrorThrownBy([&] { RenderWith(source, messages); }, "no error");
}

/// Returns the result of TemplateError on a thread with a small stack, as threads of a pool may have.
std::string ErrorOnSmallStack(const std::string& source) {
  std::pair<std::string, std::string> work = {source, ""};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  const auto run = [](void* data) -> void* {
    auto& [in, out] = *static_cast<std::pair<std::string, std::string>*>(data);
    out = TemplateError(in);
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, nullptr);
  return work.second;
}

std::string Repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// Matches the errors of templates that ran too long or made too many bytes.
auto IsTooMuch() {
  return AnyOf(HasSubstr("units of work"), HasSubstr(" ms"), HasSubstr("bytes of values"), HasSubstr("too long a"));
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(TemplateDepthTest, Sums_InsideMacrosAndLists_DoNotOverflowTheStack) {
  const std::string sum = Repeated(" + 1", 490);
  EXPECT_THAT(
      ErrorOnSmallStack("{% macro m(n) %}{{ ((m(n - 1) | int) if n else 0)" + sum + " }}{% endmacro %}\n{{ m(30) }}"),
      HasSubstr("too deep: more than 600 levels"));
  std::string nested = "1";
  for (int i = 0; i < 20; ++i) nested = "([" + nested + "] | length)" + sum;
  EXPECT_THAT(ErrorOnSmallStack("{{ " + nested + " }}"), HasSubstr("nests deeper than 500"));
  // Chains are limited in the same way inside arguments, subscripts, slices, conditions and named arguments.
  for (const auto& [before, after] :
       std::vector<std::pair<std::string, std::string>>{{"range(", ")|length"},
                                                        {"[1][", " * 0]"},
                                                        {"'a'[", ":]|length"},
                                                        {"(1 if ", " else 2)"},
                                                        {"dict(a=", ").a"},
                                                        {"{'a': ", "}['a']"},
                                                        {"(1 is divisibleby(", "))|int"}}) {
    std::string chain = "1";
    for (int i = 0; i < 30; ++i) chain = before + chain + after + Repeated(" + 1", 400);
    EXPECT_THAT(ErrorOnSmallStack("{{ " + chain + " }}"), HasSubstr("nests deeper than 500")) << before;
  }
}

TEST(TemplateDepthTest, RecursiveMacros_AreStopped) {
  for (const std::string body : {"{{ m() }}", "{% if true %}{% for x in [1] %}{{ m() }}{% endfor %}{% endif %}",
                                 "{% set x %}{{ m() }}{% endset %}", "{{ [[m()]] | map('first') | list }}"}) {
    EXPECT_THAT(ErrorOnSmallStack("{% macro m() %}" + body + "{% endmacro %}{{ m() }}"), HasSubstr("too deep")) << body;
  }
}

TEST(TemplateDepthTest, DeepValues_AreDestroyedSafely_AndRefusedWhenPrintedOrCompared) {
  const std::string deep =
      "{% set n = namespace(x=[], y=[]) %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% set n.y = [n.y] %}"
      "{% endfor %}";
  EXPECT_EQ(ErrorOnSmallStack(deep), "no error");  // deep values can be made and destroyed
  for (const std::string use : {"{{ n.x }}", "{{ n.x | tojson }}", "{{ n.x == n.y }}", "{{ n.x in [n.y] }}",
                                "{{ [n.x, n.y] | unique | list }}", "{{ [n.y].count(n.x) }}", "{{ [n.x] | join }}",
                                "{{ n.x is equalto n.y }}", "{{ n.x ~ '' }}", "{{ n.x | string | length }}"}) {
    EXPECT_THAT(ErrorOnSmallStack(deep + use), HasSubstr("too deep: more than 600 levels")) << use;
  }
  EXPECT_THAT(ErrorOnSmallStack(deep + "{{ n.x | map(" + Repeated("'map', ", 20000) + "'first') | list }}"),
              AnyOf(HasSubstr("too deep"), IsTooMuch()));
  EXPECT_THAT(TemplateError("{% set l = [] %}{% set x = l.append(l) %}{{ l }}"), HasSubstr("hold itself"));
  EXPECT_THAT(TemplateError("{% set n = namespace(x=1) %}{% set n.x = [n] %}"), HasSubstr("hold itself"));
}

TEST(TemplateDepthTest, Parser_RefusesDeepNestingAndLongChains) {
  EXPECT_THAT(ErrorOnSmallStack("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("nested too deep"));
  for (const std::string link : {"+1", "[0]", ".a", "|abs", " is odd", " if 1", "~1", "()", "**1"})
    EXPECT_THAT(ErrorOnSmallStack("{{ 1" + Repeated(link, 30000) + " }}"), HasSubstr("too long")) << link;
  EXPECT_THAT(ErrorOnSmallStack("{{ " + Repeated("not ", 20000) + "1 }}"), HasSubstr("too long"));
  EXPECT_THAT(ErrorOnSmallStack("{{ " + std::string(5000, '-') + "1 }}"), StartsWith("template:"));
  EXPECT_THAT(ErrorOnSmallStack(Repeated("{% if 1 %}", 5000)), HasSubstr("nested too deep"));
  EXPECT_THAT(TemplateError("{{ " + std::string(800'000, ' ') + "1 }}"), HasSubstr("larger than"));
  const double seconds =
      SecondsOf([] { EXPECT_EQ(TemplateError("{{ " + Repeated("'a'", 85'000) + " }}"), "no error"); });
  EXPECT_LT(seconds, 10) << "strings beside each other are put together once";
}

/// Each of these templates ran for seconds to minutes, or took gigabytes, before all work was charged.
TEST(TemplateWorkTest, ExpensiveTemplates_AreStopped) {
  const std::string many = "{% for i in range(100000) %}";
  const std::vector<std::string> templates = {
      many + many + "{% endfor %}{% endfor %}",
      many + "{{ range(100000) | length }}{% endfor %}",
      many + "{{ range(100000) | list | last }}{% endfor %}",
      many + "{{ range(100000)[i] }}{% endfor %}",
      "{% set r = range(100000) %}" + many + "{{ r[5:] | length }}{% endfor %}",
      "{% set r = range(100000) %}" + many + "{{ -1 in r }}{% endfor %}",
      "{% set r = range(100000) | map('string') | list %}" + many + "{{ r | sort | first }}{% endfor %}",
      "{% set n = namespace(l=[]) %}" + many + "{% set _ = n.l.append([i]) %}{% endfor %}{{ n.l | unique | list }}",
      "{% set n = namespace(t='') %}" + many + "{% set n.t = n.t ~ 'some more text' %}{% endfor %}",
      "{% set n = namespace(t='a' * 16000000) %}" + many + "{% set n.t = n.t ~ '' %}{% endfor %}",
      "{% set n = namespace(l=[]) %}" + many + "{% set n.l = n.l + ['a' * 10000] %}{% endfor %}",
      "{% set l = [] %}" + many + "{% set _ = l.append('a' * 100000) %}{% endfor %}",
      "{% set l = [] %}" + many + "{% set _ = l.append(loop) %}{% endfor %}" + many +
          "{% set _ = l.append(loop) %}{% endfor %}",
      "{% set l = [1] * 1000000 %}" + many + "{% set _ = [].append(l) %}{% endfor %}",
      "{% set t = 'ab' * 1000000 %}" + many + "{{ t | length }}{{ t[i] }}{{ t | upper | last }}{% endfor %}",
      "{% set t = 'a' * 8000000 %}" + many + "{{ (t ~ 'b') in t }}{% endfor %}",
      "{% set t = 'a' * 4000000 %}{% set u = ('a' * 2000000) ~ 'b' %}" + many +
          "{{ u in t }}{{ t.count(u) }}{{ t.find(u) }}{% endfor %}",
      "{% set t = 'a' * 4000000 %}" + many + "{{ t.strip(t) }}{{ t.startswith([t, t]) }}{{ t == t }}{% endfor %}",
      "{% set t = 'a ' * 500000 %}" + many +
          "{{ t.split() | length }}{{ t.replace('a', 'bbbb') | length }}{% endfor %}",
      "{% set t = '\\u00e9' * 1000000 %}" + many +
          "{{ t[-1] }}{{ t[::2] | length }}{{ t | list | length }}{% endfor %}",
      "{% set l = ['\"' * 1000] * 100000 %}{{ l | tojson | length }}",
      "{% set n = namespace(l=[]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l == [n.l] }}{{ "
      "n.l }}",
      "{% set n = namespace(l=[]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l | "
      "tojson(indent=16) }}",
      "{% macro m(a, b, c) %}{{ a }}{% endmacro %}" + many + many + "{{ m(i) }}{% endfor %}{% endfor %}",
      "{{ {" +
          [] {
            std::string entries;
            for (int i = 0; i < 18'000; ++i) entries += fmt::format("'k{:05}': 1, ", i);
            return entries;
          }() +
          "} | length }}",
      "{{ 'aaaaaaaaaaaaaaaa' * 100000000 }}",
      "{{ '' * 900000000000000000 }}",
      "{{ [1] * 900000000000000000 }}",
      "{{ [1] * 1100000 }}",
      "{% set x = [1] * 900000 %}{{ x + x }}",
      "{{ ('a ' * 1100000).split() }}",
      "{{ ('a ' * 1100000).split(' ') }}",
      "{{ ('a' * 1100000)|list }}",
      "{{ 'a' * 16000000 ~ 'a' * 16000000 }}",
      many + "{{ 'a' * 1000 }}{% endfor %}",
      "{{ ('a' * 10000) | replace('a', 'b' * 100000) }}",
      "{{ ([''] * 1000000) | join('a' * 10000) }}",
      "{{ ('\\n' * 100000) | indent(1000, true) }}"};
  double longest = 0;
  for (const std::string& source : templates) {
    const double seconds = SecondsOf([&] {
      EXPECT_THAT(TemplateError(source), AnyOf(IsTooMuch(), HasSubstr("writes too much"))) << source.substr(0, 200);
    });
    longest = std::max(longest, seconds);
    EXPECT_LT(seconds, 10) << source.substr(0, 200);
  }
  RecordProperty("longest_ms", static_cast<int>(longest * 1000));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (kCountsMemory) {
    EXPECT_LT(usage.ru_maxrss >> 10, 400) << "MiB";
  }
}

TEST(TemplateWorkTest, UniqueFilter_IsNotQuadratic) {
  const MarkedText out = RenderWith(
      "{{ range(100000) | unique | list | length }} {{ (range(50000) | map('string') | list) | unique | list | length "
      "}} "
      "{{ [1, 1.0, true, '1', none, none, [1], [1], {'a': 1}, {'a': 1}, 0, false, ''] | unique | list }}",
      Json::array());
  EXPECT_EQ(out.text, "100000 50000 [1, '1', None, [1], {'a': 1}, 0, '']");
}

jinja::Limits Patient() {
  jinja::Limits limits;
  limits.max_work = INT64_MAX / 2;
  limits.max_time = std::chrono::hours(1);
  return limits;
}

constexpr const char* kEndless =
    "{% for a in range(100000) %}{% for b in 'abc' %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor %}";

TEST(TemplateWorkTest, TimeLimit_StopsATemplate_WhenOtherLimitsDoNot) {
  jinja::Limits limits = Patient();
  limits.max_made_bytes = SIZE_MAX;
  limits.max_time = std::chrono::milliseconds(50);
  try {
    jinja::Render(jinja::Parse(kEndless), {}, limits);
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "template:1: the template runs too long: more than 50 ms");
  }
}

TEST(TemplateWorkTest, Rendering_Stops_WhenCancelled) {
  int asked = 0;
  jinja::Limits limits = Patient();
  limits.max_made_bytes = SIZE_MAX;
  limits.cancelled = [&] { return ++asked == 3; };
  EXPECT_THROW(jinja::Render(jinja::Parse(kEndless), {}, limits), Error);
  EXPECT_EQ(asked, 3);

  TokenizerData data;
  data.chat_template = kEndless;
  try {
    ChatTemplate(data).Render(Json::array(), true, {.cancelled = [] { return true; }});
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cancelled"));
  }
}

TEST(TemplateWorkTest, LongErrorMessages_OfTemplates_AreCut) {
  const std::string error = TemplateError("{{ raise_exception('\\u00e9' * 1000000) }}");
  EXPECT_THAT(error, HasSubstr("\u00e9..."));
  EXPECT_LT(error.size(), 1100u);
}

/// Renders conversations that are as large as a request may be.
TEST(TemplateWorkTest, LongConversations_AreRendered) {
  const std::string source =
      "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system = "
      "messages[0].content | trim %}{% else %}{% set loop_messages = messages %}{% set system = '' %}{% endif %}"
      "{% set ns = namespace(turns=0, last='') %}{% for message in loop_messages %}"
      "{% if message['role'] not in ['user', 'assistant'] %}{{ raise_exception('no') }}{% endif %}"
      "{% if '</think>' in message['content'] %}{% set content = message.content.split('</think>')[-1].lstrip() %}"
      "{% else %}{% set content = message['content'] | trim %}{% endif %}{% set ns.turns = ns.turns + 1 %}"
      "{% set ns.last = messages[loop.index0].role %}"
      "{{ '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}{{ ns.turns }}";
  Json few = Json::array(), many = Json::array();
  for (int i = 0; i < 4; ++i)
    few.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", Repeated("<think>h\u00e9</think> long ", 25'000)}});
  for (int i = 0; i < 30'000; ++i)
    many.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", fmt::format(" message {} ", i)}});
  EXPECT_THAT(RenderWith(source, few).text, ::testing::EndsWith("4"));
  EXPECT_THAT(RenderWith(source, many).text, ::testing::EndsWith("30000"));
  EXPECT_GT(RenderWith("{{ messages | tojson }}", few).text.size(), 2'000'000u);
  EXPECT_GT(RenderWith("{{ messages | tojson(indent=4) }}", many).text.size(), 1'000'000u);
}

}  // namespace
}  // namespace quire
