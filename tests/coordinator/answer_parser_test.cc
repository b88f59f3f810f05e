#include "coordinator/text/answers/answer_parser.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <utility>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/python_number.h"
#include "coordinator/text/answers/tool.h"

namespace quire {
namespace {

/// The parts of an answer, with the text of each kind joined.
struct Held {
  std::string content, reasoning;
  struct Call {
    std::string name, arguments;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  std::vector<std::string> broken;

  void Add(const AnswerParts& parts) {
    for (const AnswerPart& part : parts) {
      switch (part.kind) {
        case AnswerPart::kContent:
          content += part.text;
          break;
        case AnswerPart::kReasoning:
          reasoning += part.text;
          break;
        case AnswerPart::kCall:
          EXPECT_EQ(part.call, static_cast<int>(calls.size()));
          calls.push_back({part.text, ""});
          break;
        case AnswerPart::kArguments:
          EXPECT_EQ(part.call + 1, static_cast<int>(calls.size()));
          calls.back().arguments += part.text;
          break;
        case AnswerPart::kBroken:
          broken.push_back(part.text);
          break;
      }
    }
  }
  bool operator==(const Held&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Held& held) {
  out << "content <" << held.content << "> reasoning <" << held.reasoning << ">";
  for (const auto& call : held.calls) out << "\n  call " << call.name << " <" << call.arguments << ">";
  for (const auto& text : held.broken) out << "\n  broken <" << text << ">";
  return out;
}

std::shared_ptr<const ToolUse> SomeTools() {
  static const auto kTools = [] {
    auto use = std::make_shared<ToolUse>();
    const OrderedJson weather = OrderedJson::parse(
        R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"deep":{"type":"object"},)"
        R"("unit":{"type":["string","null"]},"exact":{"type":"boolean"}}})");
    use->tools.push_back({"get_weather", OrderedJson::object(), weather, false});
    use->tools.push_back({"noop", OrderedJson::object(), OrderedJson(), false});
    use->tools.push_back({"web.search-1", OrderedJson::object(), OrderedJson(), false});
    return use;
  }();
  return kTools;
}

Held Whole(const AnswerShape& shape, std::string_view text, bool cut) {
  const auto parser = MakeAnswerParser(shape);
  Held held;
  AnswerParts parts;
  parser->Push(text, parts);
  parser->Finish(cut, parts);
  held.Add(parts);
  return held;
}

/// A recorded answer, and the parts into which it must be parsed.
struct Recorded {
  std::string name, tools, reasoning, text;
  ReasoningStart start = ReasoningStart::kNone;
  bool cut = false;
  Held held;
};

Recorded RecordedOf(const Json& json) {
  Recorded answer{json["name"], json.value("tools", "none"), json.value("reasoning", "none"), json["text"]};
  const std::string start = json.value("start", "none");
  answer.start = start == "inside"      ? ReasoningStart::kInside
                 : start == "undecided" ? ReasoningStart::kUndecided
                                        : ReasoningStart::kNone;
  answer.cut = json.value("cut", false);
  answer.held.content = json.value("content", "");
  answer.held.reasoning = json.value("thoughts", "");
  for (const Json& call : json.value("calls", Json::array())) answer.held.calls.push_back({call[0], call[1]});
  answer.held.broken = json.value("broken", std::vector<std::string>());
  return answer;
}

const std::vector<Recorded>& Answers() {
  static const std::vector<Recorded> kAnswers = [] {
    const std::string path = std::string(QUIRE_TEST_DATA) + "/answers.json";
    std::vector<Recorded> answers;
    for (const Json& json : ParseJson(ReadTextFile(path, 1 << 20), path)) answers.push_back(RecordedOf(json));
    return answers;
  }();
  return kAnswers;
}

AnswerShape ShapeOf(const Recorded& answer) {
  return {{ToolFormatNamed(answer.tools).value(), ReasoningFormatNamed(answer.reasoning).value()},
          answer.start,
          answer.tools == "none" ? nullptr : SomeTools()};
}

TEST(AnswerParserTest, Parser_FindsTheRecordedParts_InRecordedAnswers) {
  for (const Recorded& answer : Answers())
    EXPECT_EQ(Whole(ShapeOf(answer), answer.text, answer.cut), answer.held) << answer.name;
}

TEST(AnswerParserTest, RecordedAnswers_YieldTheSameParts_WhenTheyArriveInTwoPieces) {
  for (const Recorded& answer : Answers()) {
    const std::string text = answer.text;
    for (size_t at = 0; at <= text.size(); ++at) {
      const auto parser = MakeAnswerParser(ShapeOf(answer));
      Held held;
      AnswerParts parts;
      parser->Push(std::string_view(text).substr(0, at), parts);
      held.Add(std::exchange(parts, {}));
      parser->Push(std::string_view(text).substr(at), parts);
      held.Add(std::exchange(parts, {}));
      parser->Finish(answer.cut, parts);
      held.Add(parts);
      ASSERT_EQ(held, answer.held) << answer.name << " cut at " << at;
    }
  }
}

TEST(AnswerParserTest, RecordedAnswers_YieldTheSameParts_WhenTheyArriveInPiecesOfAnySize) {
  for (const Recorded& answer : Answers()) {
    const std::string text = answer.text;
    for (size_t size = 1; size <= 7; ++size) {
      const auto parser = MakeAnswerParser(ShapeOf(answer));
      Held held;
      AnswerParts parts;
      for (size_t at = 0; at < text.size(); at += size) {
        parser->Push(std::string_view(text).substr(at, size), parts);
        held.Add(std::exchange(parts, {}));
      }
      parser->Finish(answer.cut, parts);
      held.Add(parts);
      ASSERT_EQ(held, answer.held) << answer.name << " in pieces of " << size;
    }
  }
}

std::string WithoutSpace(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '\n') out += c;
  }
  return out;
}

/// An answer may end at any byte. Its names and arguments must then be beginnings of the names and arguments of the
/// whole answer.
TEST(AnswerParserTest, CutAnswers_KeepCallsAndBeginningsOfArguments) {
  for (const Recorded& answer : Answers()) {
    if (!answer.held.broken.empty()) continue;
    const std::string text = answer.text;
    for (size_t at = 0; at < text.size(); ++at) {
      const Held held = Whole(ShapeOf(answer), text.substr(0, at), true);
      ASSERT_LE(held.calls.size(), answer.held.calls.size()) << answer.name << " cut at " << at;
      for (size_t i = 0; i < held.calls.size(); ++i) {
        EXPECT_EQ(held.calls[i].name, answer.held.calls[i].name);
        EXPECT_TRUE(answer.held.calls[i].arguments.starts_with(held.calls[i].arguments)) << held;
      }
    }
  }
}

TEST(AnswerParserTest, ArgumentsOfRecordedCalls_AreJsonObjects) {
  for (const Recorded& answer : Answers()) {
    if (answer.cut || !answer.held.broken.empty()) continue;
    for (const auto& call : answer.held.calls) EXPECT_TRUE(Json::parse(call.arguments).is_object()) << answer.name;
  }
}

/// When no offered tool has the called name, the whole answer becomes content, except the markers of reasoning.
TEST(AnswerParserTest, Calls_BecomeContent_WhenTheirToolWasNotOffered) {
  for (const Recorded& answer : Answers()) {
    if (answer.reasoning != "none" || answer.tools == "none") continue;
    if (ToolFormatNamed(answer.tools) == ToolFormat::kHarmony) continue;
    AnswerShape shape = ShapeOf(answer);
    auto others = std::make_shared<ToolUse>();
    others->tools.push_back({"other", {}, {}, false});
    shape.tools = others;
    const Held held = Whole(shape, answer.text, false);
    EXPECT_TRUE(held.calls.empty()) << answer.name;
    EXPECT_EQ(WithoutSpace(held.content), WithoutSpace(answer.text)) << answer.name;
  }
}

/// Parses random pieces of answers, which arrive in parts of random length. The result must depend on the text alone,
/// and parsing must end.
TEST(AnswerParserTest, RandomTexts_YieldTheSameParts_HoweverTheTextsAreCut) {
  std::minstd_rand random(7);
  const auto below = [&](size_t bound) { return random() % bound; };
  for (int round = 0; round < 20'000; ++round) {
    const Recorded& recorded = Answers()[below(Answers().size())];
    const AnswerShape shape = ShapeOf(recorded);
    const std::vector<std::string> marks = MarkersOf(shape.format);
    std::string text;
    for (size_t piece = 0; piece < 8; ++piece) {
      const std::string& source = Answers()[below(Answers().size())].text;
      const std::string& own = below(2) == 0 ? recorded.text : source;
      const size_t begin = below(own.size());
      text += own.substr(begin, below(24));
      if (!marks.empty() && below(2) == 0) text += marks[below(marks.size())];
    }
    const bool cut = below(2) == 0;
    const Held whole = Whole(shape, text, cut);
    const auto parser = MakeAnswerParser(shape);
    Held held;
    AnswerParts parts;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + below(6);
      parser->Push(std::string_view(text).substr(at, size), parts);
      held.Add(std::exchange(parts, {}));
      at += size;
    }
    parser->Finish(cut, parts);
    held.Add(parts);
    ASSERT_EQ(held, whole) << text;
  }
}

// The parser holds whitespace back where a call or reasoning may follow, but only a bounded amount.
TEST(AnswerParserTest, Whitespace_IsHeldBack_OnlyUpToABound) {
  const std::string space(20'000, '\n'), few(200, ' ');
  const AnswerShape shapes[] = {
      {{ToolFormat::kLlama3Json, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()},
      {{ToolFormat::kNone, ReasoningFormat::kThink}, ReasoningStart::kUndecided, nullptr},
      {{ToolFormat::kDeepSeekV3, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()}};
  const std::string begins[] = {"", "", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>"};
  const std::string calls[] = {R"({"name": "noop", "arguments": {}})", "<think>so</think>yes", "{\"a\": 1}"};
  for (size_t i = 0; i < std::size(shapes); ++i) {
    const auto parser = MakeAnswerParser(shapes[i]);
    Held held;
    AnswerParts parts;
    parser->Push(begins[i], parts);
    for (size_t at = 0; at < space.size(); at += 10) parser->Push(std::string_view(space).substr(at, 10), parts);
    EXPECT_LT(parser->held_bytes(), i == 0 || i == 2 ? 3 * space.size() : space.size()) << i;
    parser->Push(calls[i], parts);
    parser->Finish(false, parts);
    held.Add(parts);
    EXPECT_EQ(held.content, begins[i] + space + calls[i]) << i;
    EXPECT_TRUE(held.calls.empty() && held.reasoning.empty()) << i;
    if (i == 2) continue;
    const Held after_few = Whole(shapes[i], few + calls[i], false);
    EXPECT_EQ(after_few.calls.size() + after_few.reasoning.size(), i == 0 ? 1u : 2u) << i;
  }
}

// Clients are charged for held bytes. The parser holds a call back until its name comes, and a value until the value
// ends.
TEST(AnswerParserTest, HeldBytes_CountUnfinishedCallsAndValues) {
  const std::string long_text(30'000, 'x');
  const std::pair<ToolFormat, std::string> begun[] = {
      {ToolFormat::kHermes, R"(<tool_call>{"id": ")"},
      {ToolFormat::kMistral, "[TOOL_CALLS]noop[CALL_ID]"},
      {ToolFormat::kGlm45, "<tool_call>get_weather\n<arg_key>city</arg_key><arg_value>"},
      {ToolFormat::kQwen3Coder, "<tool_call><function=noop><parameter=a>"},
      {ToolFormat::kPythonic, "[noop(a='"}};
  for (const auto& [format, begin] : begun) {
    for (const ReasoningFormat reasoning : {ReasoningFormat::kNone, ReasoningFormat::kThink}) {
      const auto parser = MakeAnswerParser({{format, reasoning}, ReasoningStart::kNone, SomeTools()});
      AnswerParts parts;
      parser->Push(begin + long_text, parts);
      EXPECT_GE(parser->held_bytes(), (format == ToolFormat::kHermes ? 2 : 1) * long_text.size()) << NameOf(format);
    }
  }
  const auto plain =
      MakeAnswerParser({{ToolFormat::kHermes, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()});
  AnswerParts parts;
  for (int i = 0; i < 3000; ++i) plain->Push("words of an answer ", parts);
  EXPECT_LT(plain->held_bytes(), 9000u);
}

TEST(AnswerParserTest, Calls_BecomeContent_BeyondTheLimitOf128) {
  std::string text;
  for (int i = 0; i < 129; ++i) text += R"(<tool_call>{"name": "noop"}</tool_call>)";
  const Held held =
      Whole({{ToolFormat::kHermes, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()}, text, false);
  EXPECT_EQ(held.calls.size(), 128u);
  EXPECT_EQ(held.content, R"(<tool_call>{"name": "noop"}</tool_call>)");
}

TEST(AnswerParserTest, Calls_AreBroken_WhenTheirArgumentsNestTooDeeply) {
  const std::string deep = R"(<tool_call>{"name": "noop", "arguments": {"a": )" + std::string(100, '[');
  const Held held =
      Whole({{ToolFormat::kHermes, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()}, deep, true);
  ASSERT_EQ(held.broken.size(), 1u);
  EXPECT_EQ(held.broken[0] + held.content, deep);
}

TEST(AnswerParserTest, Calls_AreNotReturned_WhenArgumentsInAStringNestTooDeeply) {
  const auto call = [](size_t depth) {
    const std::string text = R"({\"a\":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
    const std::string answer = R"(<tool_call>{"name": "noop", "arguments": ")" + text + R"("}</tool_call>)";
    return Whole({{ToolFormat::kHermes, ReasoningFormat::kNone}, ReasoningStart::kNone, SomeTools()}, answer, false);
  };
  EXPECT_EQ(call(60).calls.size(), 1u);
  EXPECT_EQ(call(64).calls.size(), 0u);
  EXPECT_EQ(call(200'000).calls.size(), 0u);
}

TEST(JsonScannerTest, Scalars_AreAcceptedExactlyWhenTheyAreJson) {
  const auto status = [](const std::string& scalar) {
    JsonScanner scanner;
    JsonScanner::Status last = JsonScanner::Status::kMore;
    for (const char c : "{\"a\": " + scalar + "}") {
      if (last == JsonScanner::Status::kMore) last = scanner.Next(c);
    }
    return last;
  };
  for (const char* whole : {"0", "-0", "12", "-1.50", "2E5", "2e-05", "-1E95556", "0.1e+9", "true", "false", "null"})
    EXPECT_EQ(status(whole), JsonScanner::Status::kDone) << whole;
  for (const char* none :
       {"-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1-1", "True", "nul", "NaN", "--1", "1.2.3"})
    EXPECT_EQ(status(none), JsonScanner::Status::kError) << none;
}

TEST(JsonScannerTest, IsJsonObject_AcceptsWholeObjectsOnly) {
  for (const char* object : {"{}", " {\"a\": [1, {\"b\": \"}\"}]}\n"}) EXPECT_TRUE(IsJsonObject(object)) << object;
  for (const char* none : {"", " ", "[]", "{", "{}}", "{} 1", "{\"a\":}", "{\"a\": \"\n\"}", "\"{}\""})
    EXPECT_FALSE(IsJsonObject(none)) << none;
}

TEST(AnswerFormatTest, StartAfter_TellsFromThePromptWhetherAnAnswerStartsInReasoning) {
  EXPECT_EQ(StartAfter(ReasoningFormat::kThink, "<|assistant|>\n<think>\n"), ReasoningStart::kInside);
  EXPECT_EQ(StartAfter(ReasoningFormat::kThink, "<|assistant|>\n<think>\n\n</think>\n\n"), ReasoningStart::kNone);
  EXPECT_EQ(StartAfter(ReasoningFormat::kThink, "<|assistant|>\n"), ReasoningStart::kUndecided);
  EXPECT_EQ(StartAfter(ReasoningFormat::kThinkFromStart, "<|assistant|>\n"), ReasoningStart::kInside);
  EXPECT_EQ(StartAfter(ReasoningFormat::kThinkFromStart, "</think>"), ReasoningStart::kNone);
  EXPECT_EQ(StartAfter(ReasoningFormat::kGemma4, "<|turn>model\n<|channel>thought\n<channel|>"), ReasoningStart::kNone);
  EXPECT_EQ(StartAfter(ReasoningFormat::kGemma4, "<|turn>model\n"), ReasoningStart::kUndecided);
  EXPECT_EQ(StartAfter(ReasoningFormat::kNone, "<think>"), ReasoningStart::kNone);
}

TEST(AnswerFormatTest, FormatOfTemplate_RecognisesToolAndReasoningFormats) {
  const auto tools = [](std::string_view source) { return NameOf(FormatOfTemplate(source).tools); };
  const auto reasoning = [](std::string_view source) { return NameOf(FormatOfTemplate(source).reasoning); };
  EXPECT_EQ(tools("{{ '<tool_call>\\n' + x }}"), "hermes");
  EXPECT_EQ(tools("<tool_call><function=f><parameter=p>"), "qwen3_coder");
  EXPECT_EQ(tools("<tool_call>x<arg_key>"), "glm45");
  EXPECT_EQ(tools("<|tool_call|>"), "granite");
  EXPECT_EQ(tools("[TOOL_CALLS]"), "mistral");
  EXPECT_EQ(tools("<|python_tag|>"), "llama3_json");
  EXPECT_EQ(tools("<｜tool▁calls▁begin｜>"), "deepseek_v31");
  EXPECT_EQ(tools("<|channel|>"), "openai");
  EXPECT_EQ(tools("[func_name1(params_name1="), "pythonic");
  EXPECT_EQ(tools("<|tool_calls_section_begin|>"), "kimi_k2");
  EXPECT_EQ(tools("'<minimax:tool_call>' <invoke name=\"\">"), "minimax_m2");
  EXPECT_EQ(tools("{% set dsml_token = '｜DSML｜' %}function_calls"), "deepseek_v32");
  EXPECT_EQ(tools("List of tools: <|tool_list_start|>["), "lfm2");
  EXPECT_EQ(tools("<functions>{{ tools }}</functions> <function_calls>"), "olmo3");
  EXPECT_EQ(tools("'<|tool_call>call:' + function['name']"), "gemma4");
  EXPECT_EQ(reasoning("'<|channel>thought\\n<channel|>'"), "gemma4");
  EXPECT_EQ(tools("<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key>"), "glm47");
  EXPECT_EQ(tools("'<|tool|>' + message['tools'] + '<|/tool|>'"), "phi4_mini_json");
  EXPECT_EQ(tools("<TOOLCALL>[{{\"name\": ..}}]</TOOLCALL>"), "nemotron_json");
  EXPECT_EQ(tools("<|START_ACTION|>[ {\"tool_call_id\": \"0\", \"tool_name\": \"a\"} ]<|END_ACTION|>"),
            "cohere_command3");
  EXPECT_EQ(tools("Write 'Action:' followed by a list: ```json [{\"tool_name\": title of the tool}]"), "command_r");
  EXPECT_EQ(reasoning("<|START_RESPONSE|>{{ message.content }}<|END_RESPONSE|>"), "cohere_command3");
  EXPECT_EQ(tools("<|im_start|>"), "none");
  EXPECT_EQ(reasoning("{% if '</think>' in content %}"), "qwen3");
  EXPECT_EQ(reasoning("[THINK]"), "mistral");
  EXPECT_EQ(reasoning("<minimax:tool_call> <think></think> <response>"), "minimax_m2");
  EXPECT_EQ(reasoning("<think></think><response>"), "granite");
  EXPECT_EQ(reasoning("<|channel|>"), "openai_gptoss");
  EXPECT_EQ(reasoning("<|im_start|>"), "none");
}

TEST(PythonNumberTest, Underscores_AreAccepted_WherePythonAcceptsThem) {
  for (const auto& [word, number] :
       {std::pair("1_000", "1000"), {"1_0.2_5", "10.25"}, {"0x_1F", "31"}, {"0x1_f", "31"}, {"1e1_0", "1e10"}})
    EXPECT_EQ(PythonNumber(word), number) << word;
  for (const char* word : {"_1", "1_", "1__0", "1._5", "._5", "1_.5", "1_e5", "1e_5", "0_x1", "0x_", "0x1_g"})
    EXPECT_EQ(PythonNumber(word), std::nullopt) << word;
}

}  // namespace
}  // namespace quire
