#include "coordinator/api/openai/answer_stops.h"

#include <gtest/gtest.h>

#include "comm/base/json.h"
#include "coordinator/api/openai/chat_choice.h"
#include "coordinator/text/answers/tool.h"

namespace quire {
namespace {

struct HeldBack {
  std::string words, thoughts, arguments, stop;
  bool operator==(const HeldBack&) const = default;
};

AnswerShape ShapeOf(ToolFormat tools, ReasoningFormat reasoning, ReasoningStart start) {
  static const auto kTools = [] {
    auto use = std::make_shared<ToolUse>();
    use->tools.push_back({"f", {}, {}, false});
    return use;
  }();
  return {{tools, reasoning}, start, tools == ToolFormat::kNone ? nullptr : kTools};
}

/// Returns the parts that a client gets when the text arrives in pieces of this many bytes.
HeldBack Told(const AnswerShape& shape, const std::string& text, const std::vector<std::string>& stops, size_t size,
              bool include_stop = false) {
  AnswerStops finder(StopMatcher(stops, include_stop), !stops.empty(), shape);
  ChatChoice choice(shape, true);
  HeldBack held;
  const auto add = [&](const AnswerParts& parts) {
    for (const AnswerPart& part : parts) {
      const bool is_words = part.kind == AnswerPart::kContent || part.kind == AnswerPart::kBroken;
      if (is_words) held.words += part.text;
      if (part.kind == AnswerPart::kReasoning) held.thoughts += part.text;
      if (part.kind == AnswerPart::kArguments) held.arguments += part.text;
    }
  };
  AnswerStops::Output out;
  for (size_t at = 0; at < text.size() && !out.stopped; at += size) {
    out = finder.Push(text.substr(at, size), true);
    if (out.stopped) held.stop = out.stop;
    add(choice.OnText(out.text, out.words));
  }
  if (!out.stopped) {
    out = finder.Finish(false);
    held.stop = out.stop;
    add(choice.OnText(out.text, out.words));
  }
  add(choice.OnEnd(false));
  return held;
}

constexpr auto kInside = ReasoningStart::kInside;

TEST(AnswerStopsTest, StopStrings_EndContentButNotReasoningOrArguments_HoweverTheTextIsCut) {
  const AnswerShape thinks = ShapeOf(ToolFormat::kNone, ReasoningFormat::kThink, kInside);
  const AnswerShape calls = ShapeOf(ToolFormat::kHermes, ReasoningFormat::kThink, ReasoningStart::kUndecided);
  const AnswerShape harmony = ShapeOf(ToolFormat::kHarmony, ReasoningFormat::kHarmony, ReasoningStart::kNone);
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": "STOP"}}</tool_call>)";
  struct Case {
    AnswerShape shape;
    std::string text;
    std::vector<std::string> stops;
    HeldBack held;
  };
  const Case cases[] = {
      {thinks, "a STOP b</think>\n\nc STOP d", {"STOP"}, {"c ", "a STOP b", "", "STOP"}},
      {thinks, "a\n\nb</think>\n\nc\n\nd", {"\n\n"}, {"c", "a\n\nb", "", "\n\n"}},
      {thinks, "a b</think>", {"a", "b"}, {"", "a b", "", ""}},
      {thinks, "a</think>c STO", {"STOP"}, {"c STO", "a", "", ""}},
      {thinks, "a</think>STOP", {"x", "STOP"}, {"", "a", "", "STOP"}},
      {calls, "<think>STOP</think>w " + call + " so STOP x", {"STOP"}, {"w so ", "STOP", R"({"a": "STOP"})", "STOP"}},
      {calls, "w ST" + call + "OP x", {"STOP"}, {"w STOP x", "", R"({"a": "STOP"})", ""}},
      {calls, "w <tool_call>STOP", {"STOP"}, {"w <tool_call>", "", "", "STOP"}},
      {calls, R"(w <tool_call>{"name": "f", "arguments": {"a STOP)", {"STOP"}, {"w", "", "", "STOP"}},
      {calls, "w <to", {"<t"}, {"w ", "", "", "<t"}},
      {harmony,
       "<|channel|>analysis<|message|>STOP<|end|><|start|>assistant<|channel|>final<|message|>a STOP b",
       {"STOP"},
       {"a ", "STOP", "", "STOP"}},
      {harmony,
       "<|channel|>commentary to=functions.f<|message|>{\"a\": \"STOP\"}",
       {"STOP"},
       {"", "", R"({"a": "STOP"})", ""}},
  };
  for (const Case& c : cases) {
    for (size_t size = 1; size <= c.text.size(); ++size) {
      HeldBack held = Told(c.shape, c.text, c.stops, size);
      if (c.text.find("{\"a STOP") != std::string::npos) {
        // An unfinished call becomes content, and the stop string ends this content, too.
        EXPECT_TRUE(held.words.starts_with("w") && held.words.find("STOP") == std::string::npos) << held.words;
        EXPECT_EQ(held.stop, "STOP");
        continue;
      }
      EXPECT_EQ(held.words, c.held.words) << c.text << " in pieces of " << size;
      EXPECT_EQ(held.thoughts, c.held.thoughts) << c.text << " in pieces of " << size;
      EXPECT_EQ(held.arguments, c.held.arguments) << c.text << " in pieces of " << size;
      EXPECT_EQ(held.stop, c.held.stop) << c.text << " in pieces of " << size;
    }
  }
}

TEST(AnswerStopsTest, IncludedStopString_FollowsTheContent) {
  const AnswerShape thinks = ShapeOf(ToolFormat::kNone, ReasoningFormat::kThink, kInside);
  for (size_t size = 1; size < 12; ++size)
    EXPECT_EQ(Told(thinks, "STOP</think>a STOP b", {"STOP"}, size, true).words, "a STOP");
}

TEST(AnswerStopsTest, Content_IsHeldBack_WhileItMayBecomeAStopString) {
  const AnswerShape thinks = ShapeOf(ToolFormat::kNone, ReasoningFormat::kThink, kInside);
  AnswerStops finder(StopMatcher({"STOP"}, false), true, thinks);
  const AnswerStops::Output out = finder.Push("a</think>b STO", true);
  EXPECT_EQ(out.words, 2u);
  ChatChoice choice(thinks, true);
  AnswerParts parts = choice.OnText(out.text, out.words);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].text, "b ");
  EXPECT_GE(choice.held_bytes(), 3u);
  const AnswerStops::Output next = finder.Push("x", true);
  EXPECT_EQ(choice.OnText(next.text, next.words)[0].text, "STO");
  const size_t told = finder.Push("", false).words;
  EXPECT_EQ(finder.Push("STOP", false).words, told + 4);  // before min_tokens a stop string is plain text
}

TEST(AnswerStopsTest, PlainText_IsHeldBack_WhileItMayBecomeAStopString) {
  AnswerStops finder(StopMatcher({"STOP"}, false), true, AnswerShape());
  EXPECT_EQ(finder.Push("a ST", true).text, "a ");
  EXPECT_EQ(finder.Finish(true).text, "ST");
}

}  // namespace
}  // namespace quire
