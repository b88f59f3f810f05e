#include "coordinator/text/answers/call_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <set>

#include "comm/base/json.h"
#include "comm/grammar/grammar_compiler.h"
#include "coordinator/text/answers/answer_words.h"
#include "coordinator/text/answers/python_call.h"
#include "coordinator/text/answers/tool.h"

namespace quire {
namespace {

constexpr TokenId kStop = 0;
constexpr TokenId kFirstByte = 1, kFirstControl = 257;

constexpr const char* kWeather = R"({"type": "object", "properties": {
  "city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 0, "maximum": 9},
  "deep": {"type": "boolean"}}, "required": ["city", "days"], "additionalProperties": false})";

/// The format in which the model of a test writes its answers.
struct Form {
  ToolFormat tools;
  bool has_tokens;  // the markers of calls are control tokens
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  ReasoningStart start = ReasoningStart::kNone;
};

/// The grammar of one answer, and the parser that reads the accepted texts.
class GrammarAnswers {
 public:
  explicit GrammarAnswers(const Form& form, ToolChoice choice = {}, const GrammarSource& words = {},
                          bool parallel = true, const OrderedJson& schema = OrderedJson::parse(kWeather))
      : vocabulary_{{""}, {kStop}} {
    for (int byte = 0; byte < 256; ++byte) vocabulary_.bytes.emplace_back(1, static_cast<char>(byte));
    auto use = std::make_shared<ToolUse>();
    use->tools = {{"get_weather", nullptr, schema, true}, {"noop", nullptr, nullptr, false}};
    use->choice = std::move(choice);
    use->parallel = parallel;
    shape_ = {{form.tools, form.reasoning}, form.start, use};
    std::map<std::string, TokenId> control;
    for (const std::string& mark : form.has_tokens ? MarkersOf(shape_.format) : std::vector<std::string>()) {
      if (control.contains(mark)) continue;
      control[mark] = static_cast<TokenId>(vocabulary_.bytes.size());
      vocabulary_.bytes.push_back("\xff" + mark);  // a byte that valid text never contains
    }
    const std::vector<OrderedJson> schemas = {schema, nullptr};
    const GrammarSource source = CallGrammar({shape_, schemas, control, words});
    GrammarCompiler compiler(vocabulary_, static_cast<int>(vocabulary_.bytes.size()));
    grammar_ = compiler.Compile(source);
  }

  TokenId num_tokens() const { return static_cast<TokenId>(vocabulary_.bytes.size()); }
  std::string TextOf(TokenId token) const {
    return vocabulary_.bytes[static_cast<size_t>(token)].substr(token >= kFirstControl ? 1 : 0);
  }
  std::vector<TokenId> Spelled(std::string_view text) const {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      TokenId token = kFirstControl;
      while (token < num_tokens() && !text.starts_with(TextOf(token))) ++token;
      if (token == num_tokens()) token = kFirstByte + static_cast<unsigned char>(text.front());
      tokens.push_back(token);
      text.remove_prefix(TextOf(token).size());
    }
    return tokens;
  }

  GrammarMatcher Matcher() const { return GrammarMatcher(grammar_); }
  static bool MayCome(TokenId token, const std::vector<uint32_t>& allowed) {
    return (allowed[static_cast<size_t>(token) / 32] >> token % 32 & 1) != 0;
  }
  /// True if the text may be a whole answer.
  bool Takes(std::string_view text) const {
    GrammarMatcher matcher = Matcher();
    std::vector<uint32_t> allowed(matcher.num_words());
    return matcher.Follow(Spelled(text)) && matcher.Allow(allowed) && MayCome(kStop, allowed);
  }

  /// Returns the calls that the answer's parser finds in the text: names and arguments.
  std::vector<std::pair<std::string, std::string>> CallsIn(const std::string& text) const {
    const auto parser = MakeAnswerParser(shape_);
    AnswerParts parts;
    parser->Push(text, parts);
    parser->Finish(false, parts);
    std::vector<std::pair<std::string, std::string>> calls;
    for (const AnswerPart& part : parts) {
      if (part.kind == AnswerPart::kCall) calls.emplace_back(part.text, "");
      if (part.kind == AnswerPart::kArguments) calls.back().second += part.text;
      if (part.kind == AnswerPart::kBroken) calls.pop_back();
    }
    return calls;
  }

 private:
  Vocabulary vocabulary_;
  AnswerShape shape_;
  std::shared_ptr<const CompiledGrammar> grammar_;
};

/// True if the schema kWeather accepts these arguments.
bool Accepts(const std::string& arguments) {
  const Json value = Json::parse(arguments, nullptr, false);
  if (!value.is_object() || !value.contains("city") || !value.contains("days")) return false;
  for (const auto& [key, member] : value.items()) {
    if (key == "city") {
      if (!member.is_string()) return false;
      const auto& text = member.get_ref<const std::string&>();
      const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
      if (std::ranges::count_if(text, begins) > 6) return false;
    } else if (key == "days") {
      if (!member.is_number_integer() || member < 0 || member > 9) return false;
    } else if (key != "deep" || !member.is_boolean()) {
      return false;
    }
  }
  return true;
}

/// Returns a random text that the grammar accepts: mostly `target`, with some parts left out and others inserted.
/// Returns an empty string when the text does not end within 400 tokens.
std::string Walk(const GrammarAnswers& answers, const std::string& target, std::mt19937& random) {
  const std::vector<TokenId> aim = answers.Spelled(target);
  GrammarMatcher matcher = answers.Matcher();
  std::vector<uint32_t> allowed(matcher.num_words());
  std::vector<TokenId> tokens;
  std::string text;
  size_t at = 0;
  while (tokens.size() < 400) {
    EXPECT_TRUE(matcher.Follow(tokens)) << text;
    if (!matcher.Allow(allowed)) {
      ADD_FAILURE() << "nothing may follow " << text;
      return "";
    }
    if (GrammarAnswers::MayCome(kStop, allowed) && (at >= aim.size() || random() % 40 == 0)) return text;
    while (at < aim.size() && random() % 60 == 0) ++at;  // leaves a part of the target out
    TokenId token = at < aim.size() ? aim[at++] : kStop;
    if (token == kStop || !GrammarAnswers::MayCome(token, allowed) || random() % 30 == 0) {
      std::vector<TokenId> others;
      for (TokenId other = kFirstByte; other < answers.num_tokens(); ++other) {
        if (GrammarAnswers::MayCome(other, allowed)) others.push_back(other);
      }
      if (others.empty()) return text;  // only the end of the answer is allowed
      // Prefers printable characters and markers to other bytes.
      token = others[random() % others.size()];
      for (int i = 0; i < 4 && token < kFirstControl && (token - kFirstByte < ' ' || token - kFirstByte > '~'); ++i)
        token = others[random() % others.size()];
    }
    tokens.push_back(token);
    text += answers.TextOf(token);
  }
  return "";
}

struct Bound {
  std::string name;
  Form form;
  std::vector<std::string> calls, words, wrong;  // accepted calls, accepted answers without calls, refused calls
};

std::string Replaced(std::string text, std::string_view what, const std::string& by) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
  return text;
}

/// A format in which each call follows a mark and may be anywhere in an answer.
struct MarkedForm {
  ToolFormat tools;
  /// The text of a call. A test replaces $C and $D by the city and the number of days, and $A by the arguments as a
  /// JSON object.
  std::string call;
  std::vector<std::string> words = {};  // texts that would be calls if no grammar constrained the answer
  std::vector<bool> with_tokens = {false, true};
};

std::vector<MarkedForm> MarkedForms() {
  const std::string json = R"({"name": "get_weather", "arguments": $A})",
                    none = R"({"name": "get_weather", "arguments": {}})";
  return {
      {ToolFormat::kHermes, "<tool_call>\n" + json + "\n</tool_call>"},
      {ToolFormat::kGeneric, "<tool_call>\n" + json + "\n</tool_call>", {none, "```json\n" + none + "\n```"}},
      {ToolFormat::kGranite, "<|tool_call|>[" + json + "]", {"<tool_call>[" + none + "]"}},
      {ToolFormat::kNemotron, "<TOOLCALL>[" + json + "]</TOOLCALL>"},
      {ToolFormat::kDeepSeekV3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n$A\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {},
       {true}},
      {ToolFormat::kDeepSeekV31,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>$A<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜>"},
       {true}},
      {ToolFormat::kKimiK2,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>$A"
       "<|tool_call_end|><|tool_calls_section_end|>",
       {"<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
       {true}},
      {ToolFormat::kMiniMaxM2,
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">$C</parameter>\n"
       "<parameter name=\"days\">$D</parameter>\n</invoke>\n</minimax:tool_call>",
       {"<invoke name=\"get_weather\">\n</invoke>"}},
      {ToolFormat::kDeepSeekV32,
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
       "<｜DSML｜parameter name=\"city\" string=\"true\">$C</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"days\" string=\"false\">$D</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {},
       {true}},
      {ToolFormat::kLfm2,
       "<|tool_call_start|>[get_weather(city=\"$C\", days=$D)]<|tool_call_end|>",
       {"[get_weather()]"}},
      {ToolFormat::kOlmo3, "<function_calls>\nget_weather(city=\"$C\", days=$D)\n</function_calls>", {"get_weather()"}},
      {ToolFormat::kGemma4, "<|tool_call>call:get_weather{city:\"$C\",days:$D}<tool_call|>", {"call:get_weather{}"}},
      {ToolFormat::kCommand3,
       R"(<|START_ACTION|>[
    {"tool_name": "get_weather", "parameters": $A}
]<|END_ACTION|>)",
       {R"([{"tool_name": "get_weather", "parameters": {}}])"}},
      {ToolFormat::kCommandR,
       "Action: ```json\n[\n    {\"tool_name\": \"get_weather\", \"parameters\": $A}\n]\n```",
       {"Action:\n```json\n[{\"tool_name\": \"get_weather\", \"parameters\": {}}]\n```"},
       {false}},
      {ToolFormat::kPhi4Mini, "<|tool_call|>[" + json + "]<|/tool_call|>", {"functools[" + none + "]"}},
      {ToolFormat::kGlm47,
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value>$C</arg_value><arg_key>days</arg_key>"
       "<arg_value>$D</arg_value></tool_call>",
       {},
       {false}},
      {ToolFormat::kGlm45,
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>$C</arg_value>\n<arg_key>days</arg_key>\n"
       "<arg_value>$D</arg_value>\n</tool_call>",
       {},
       {false}},
      {ToolFormat::kQwen3Coder,
       "<tool_call>\n<function=get_weather>\n<parameter=city>\n$C\n</parameter>\n<parameter=days>\n$D\n</parameter>\n"
       "</function>\n</tool_call>",
       {"<function=get_weather>\n</function>"}},
  };
}

std::vector<Bound> MarkedBounds() {
  std::vector<Bound> bounds;
  for (const MarkedForm& form : MarkedForms()) {
    const auto call = [&](const std::string& city, const std::string& days) {
      const std::string arguments = R"({"city": ")" + city + R"(", "days": )" + days + "}";
      return Replaced(Replaced(Replaced(form.call, "$A", arguments), "$C", city), "$D", days);
    };
    std::vector<std::string> words = {"Hello <b>", "[1]", "Paris {3}"};
    words.insert(words.end(), form.words.begin(), form.words.end());
    for (const bool tokens : form.with_tokens) {
      bounds.push_back({NameOf(form.tools),
                        {form.tools, tokens},
                        {call("Paris", "3"), "Look: " + call("Rome", "0")},
                        words,
                        {call("Paris", "33"), "Look: " + call("Parisian", "3"), call("x", "\"3\"")}});
    }
  }
  return bounds;
}

std::vector<Bound> Bounds() {
  const std::string arguments = R"({"city": "Paris", "days": 3})", unkept = R"({"city": "Paris", "days": 33})";
  const auto llama = [](const std::string& a) { return R"({"name": "get_weather", "parameters": )" + a + "}"; };
  const auto harmony = [](const std::string& a) {
    return "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + a;
  };
  const auto tagged = [](const std::string& a) {
    return "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + a + "}\n</tool_call>";
  };
  const std::vector<std::string> llama_calls = {
      llama(arguments), llama(arguments) + "; " + R"({"name": "noop", "parameters": {"x": [1, "a\"}"]}})",
      "\n" + llama(arguments),
      R"({"type": "function", "name": "get_weather", "parameters": {"city": "a}", "days": 0, "deep": true}})",
      "<|python_tag|>" + llama(arguments)};
  const std::vector<std::string> llama_words = {"Hello, it is {\"name\": \"get_weather\", \"parameters\": {}}.",
                                                "{\"answer\": [1, 2]}",
                                                "{\"name\": \"Paris\", \"x\": 1}",
                                                "{}",
                                                "",
                                                " ",
                                                "{\"nam\": 1}",
                                                "[1]"};
  const std::vector<std::string> llama_wrong = {llama(unkept),
                                                llama("{}"),
                                                "{\"name\" : \"get_weather\", \"parameters\": {}}",
                                                "<|python_tag|>" + llama(unkept),
                                                "{ \"name\": \"get_weather\", \"parameters\": {}}",
                                                "{\"parameters\": {}, \"name\": \"get_weather\"}",
                                                "{\"name\": \"get\\u005fweather\", \"parameters\": {}}",
                                                "\n\n" + llama(unkept)};
  const std::vector<std::string> python_calls = {
      "[get_weather(city=\"Paris\", days=3)]",
      "[get_weather(city=\"\xc3\xa9)/\", days=3, deep=True), noop(x=\"\\u00e9\\/\\\"\")]",
      " [noop(a={\"b\": [true, null]}, c=\"x\")]"};
  const std::vector<std::string> python_words = {"Call [get_weather(city=1)]", "[1, 2]", "[get_weather]", "",
                                                 "[get_weather2()]"};
  const std::vector<std::string> python_wrong = {"[get_weather()]",
                                                 "[get_weather(city=\"Paris\", days=33)]",
                                                 "[get_weather(days=3, city=\"Paris\", days=3)]",
                                                 "[ get_weather(city='x')]",
                                                 "[get_weather(city=\"Parisian\", days=3)]",
                                                 "\n [\n get_weather(x=1)]"};
  const std::vector<std::string> messages = {
      harmony(arguments), "<|channel|>analysis<|message|>Hm, <3.<|end|><|start|>assistant" + harmony(arguments),
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary "
      "json<|message|>" +
          arguments + "<|end|><|start|>assistant" + harmony(arguments)};
  const std::vector<std::string> message_words = {
      "<|channel|>final<|message|>Hello <b>",
      "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>So."};
  const std::vector<std::string> message_wrong = {
      harmony(unkept), harmony("{}"), "<|channel|>analysis to=functions.get_weather<|message|>" + unkept,
      "<|channel|>analysis<|message|>x<|end|><|start|>assistant" + harmony(unkept),
      "<|channel|>analysis<|message|>x<|start|>assistant" + harmony(unkept)};
  std::vector<Bound> bounds;
  for (const bool tokens : {false, true}) {
    bounds.push_back({"llama3_json", {ToolFormat::kLlama3Json, tokens}, llama_calls, llama_words, llama_wrong});
    bounds.push_back({"pythonic", {ToolFormat::kPythonic, tokens}, python_calls, python_words, python_wrong});
    bounds.push_back(
        {"openai", {ToolFormat::kHarmony, tokens, ReasoningFormat::kHarmony}, messages, message_words, message_wrong});
    bounds.push_back({"hermes",
                      {ToolFormat::kHermes, tokens},
                      {tagged(arguments), "Look: " + tagged(arguments)},
                      {"Hello <b>"},
                      {tagged(unkept), "Look: " + tagged("{}")}});
  }
  bounds[1].calls.push_back("[noop()]");
  for (const size_t i : {0, 1}) bounds[5].calls.push_back("<|python_start|>" + python_calls[i] + "<|python_end|>");
  bounds[1].wrong.push_back("<|python_start|>[get_weather()]");
  bounds[5].wrong.push_back("<|python_start|>[get_weather()]");
  bounds[4].calls.push_back("Words, then <|python_tag|>" + llama(arguments));
  bounds[4].wrong.push_back("Words, then <|python_tag|>" + llama(unkept));
  bounds[0].wrong.push_back("Words, then <|python_tag|>" + llama(unkept));
  bounds[0].wrong.push_back("Words, then <<|python_tag|>" + llama(unkept));
  // Reasoning comes first, whether its markers are tokens or text.
  const auto think = [](const std::vector<std::string>& texts, const std::string& before) {
    std::vector<std::string> out;
    for (const std::string& text : texts) out.push_back(before + text);
    return out;
  };
  for (const auto tools : {ToolFormat::kLlama3Json, ToolFormat::kPythonic}) {
    const bool llama_form = tools == ToolFormat::kLlama3Json;
    const auto &calls = llama_form ? llama_calls : python_calls, &wrong = llama_form ? llama_wrong : python_wrong;
    bounds.push_back({"thoughts that the prompt opens",
                      {tools, false, ReasoningFormat::kThink, ReasoningStart::kInside},
                      think(calls, "Hm, 3 < 4.\n</think>\n\n"),
                      {"Hm</think>Hello."},
                      think(wrong, "Hm</think>")});
    std::vector<std::string> undecided = think(wrong, "<think>Hm</think>");
    undecided.insert(undecided.end(), wrong.begin(), wrong.end());
    bounds.push_back({"thoughts that the answer may open",
                      {tools, false, ReasoningFormat::kThink, ReasoningStart::kUndecided},
                      think(calls, "<think>Hm, 3 < 4.\n</think>\n\n"),
                      {"Hello.", "<think>Hm</think>Hello."},
                      undecided});
  }
  std::ranges::move(MarkedBounds(), std::back_inserter(bounds));
  return bounds;
}

TEST(CallGrammarTest, Grammar_KeepsCallsToTheirSchemas_WhenCallsAreOptional) {
  for (const Bound& bound : Bounds()) {
    const GrammarAnswers answers(bound.form);
    const std::string which = bound.name + (bound.form.has_tokens ? " with tokens: " : ": ");
    for (const std::string& text : bound.calls) {
      EXPECT_TRUE(answers.Takes(text)) << which << text;
      EXPECT_FALSE(answers.CallsIn(text).empty()) << which << text;
    }
    for (const std::string& text : bound.words) {
      EXPECT_TRUE(answers.Takes(text)) << which << text;
      EXPECT_TRUE(answers.CallsIn(text).empty()) << which << text;
    }
    for (const std::string& text : bound.wrong) EXPECT_FALSE(answers.Takes(text)) << which << text;
  }
}

TEST(CallGrammarTest, Parser_FindsOnlyCallsThatKeepTheirSchema_InTextsThatTheGrammarAccepts) {
  std::mt19937 random(5);
  for (const Bound& bound : Bounds()) {
    const GrammarAnswers answers(bound.form);
    std::vector<std::string> targets = bound.calls;
    targets.insert(targets.end(), bound.words.begin(), bound.words.end());
    targets.insert(targets.end(), bound.wrong.begin(), bound.wrong.end());
    int found = 0;
    for (int walk = 0; walk < 150; ++walk) {
      const std::string text = Walk(answers, targets[random() % targets.size()], random);
      for (const auto& [name, arguments] : answers.CallsIn(text)) {
        if (name != "get_weather") continue;
        ++found;
        EXPECT_TRUE(Accepts(arguments)) << bound.name << ": " << text << "\n" << arguments;
      }
    }
    EXPECT_GT(found, 5) << bound.name;
  }
}

TEST(CallGrammarTest, Grammar_RefusesAnswersWithoutCalls_WhenACallIsRequired) {
  for (const Bound& bound : Bounds()) {
    const GrammarAnswers answers(bound.form, {ToolChoice::kRequired, ""});
    const std::string which = bound.name + (bound.form.has_tokens ? " with tokens: " : ": ");
    if (bound.form.tools != ToolFormat::kHarmony && bound.form.start == ReasoningStart::kNone) {
      EXPECT_TRUE(answers.Takes(bound.calls[0])) << which;
    }
    for (const std::string& text : bound.words) EXPECT_FALSE(answers.Takes(text)) << which << text;
    for (const std::string& text : bound.wrong) EXPECT_FALSE(answers.Takes(text)) << which << text;
  }
  const GrammarAnswers named({ToolFormat::kPythonic, false}, {ToolChoice::kNamed, "noop"});
  EXPECT_TRUE(named.Takes("[noop()]"));
  EXPECT_FALSE(named.Takes("[get_weather(city=\"Paris\", days=3)]"));
  EXPECT_FALSE(named.Takes("[noop(), noop()]"));
}

TEST(CallGrammarTest, Grammar_AcceptsOneCallOnly_WhenParallelCallsAreOff) {
  for (const Bound& bound : Bounds()) {
    const GrammarAnswers answers(bound.form, {}, {}, false);
    for (const std::string& text : bound.calls)
      EXPECT_EQ(answers.Takes(text), answers.CallsIn(text).size() == 1) << bound.name << ": " << text;
  }
}

TEST(CallGrammarTest, Grammar_ConstrainsTheFinalMessage_InHarmonyFormat) {
  const GrammarAnswers answers({ToolFormat::kHarmony, true, ReasoningFormat::kHarmony}, {},
                               {GrammarSource::kRegex, "yes|no"});
  const std::string thoughts = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant";
  EXPECT_TRUE(answers.Takes("<|channel|>final<|message|>yes"));
  EXPECT_TRUE(answers.Takes(thoughts + "<|channel|>final<|message|>no"));
  EXPECT_FALSE(answers.Takes(thoughts + "<|channel|>final<|message|>so"));
  EXPECT_FALSE(answers.Takes("yes"));
  EXPECT_TRUE(answers.Takes(thoughts + "<|channel|>commentary to=functions.noop<|message|>{}"));
}

TEST(CallGrammarTest, Grammar_LetsGemmaQuoteTexts_WhereTheSchemaLeavesThemFree) {
  const OrderedJson schema =
      OrderedJson::parse(R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x"]},
    "c": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]})");
  for (const bool tokens : {false, true}) {
    const GrammarAnswers answers({ToolFormat::kGemma4, tokens}, {ToolChoice::kRequired, ""}, {}, true, schema);
    EXPECT_TRUE(
        answers.Takes("<|tool_call>call:get_weather{a:<|\"|>x, {y}: \"z\"<|\"|>,b:\"x\",c:[\"y\"]}<tool_call|>"));
    EXPECT_FALSE(answers.Takes("<|tool_call>call:get_weather{a:x}<tool_call|>"));
    EXPECT_FALSE(answers.Takes("<|tool_call>call:get_weather{b:\"x\"}<tool_call|>"));
  }
}

TEST(PythonCallTest, WhyNoPythonCall_NamesThePartOfASchemaThatArgumentsCannotExpress) {
  const auto why = [](const char* schema) { return WhyNoPythonCall(OrderedJson::parse(schema)); };
  EXPECT_EQ(why(kWeather), "");
  EXPECT_EQ(why(R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/D"}}, "$defs": {"D": {}}})"), "");
  EXPECT_NE(why(R"({"type": "object", "properties": {"a": {"$ref": "#"}}})").find("\"#\""), std::string::npos);
  EXPECT_NE(why(R"({"type": "object", "properties": {"a b": {}}})").find("\"a b\""), std::string::npos);
  EXPECT_NE(why(R"({"type": "object", "minProperties": 1})").find("of their number"), std::string::npos);
  OrderedJson many = {{"type", "object"}, {"$defs", {{"D", {{"description", std::string(1000, 'd')}}}}}};
  for (int i = 0; i < 20; ++i) many["properties"]["p" + std::to_string(i)] = true;
  EXPECT_NE(WhyNoPythonCall(many).find("more than 65536 bytes"), std::string::npos) << "210 copies of 1 KiB";
  many["required"] = {"p1"};
  EXPECT_EQ(WhyNoPythonCall(many), "") << "two rows alone";
}

TEST(AnswerWordsTest, TextWithoutMark_MatchesExactlyTheTexts_ThatDoNotContainTheMark) {
  const std::string mark = "<ab>";
  const std::regex pattern(TextWithoutMark(mark));
  std::mt19937 random(3);
  int with = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t length = random() % 12; text.size() < length;) text += "<ab>c"[random() % 5];
    const bool has = text.find(mark) != std::string::npos;
    with += has;
    ASSERT_EQ(std::regex_match(text, pattern), !has) << text;
  }
  EXPECT_GT(with, 50);
}

TEST(AnswerWordsTest, BesideWords_MatchesNoText_ThatBeginsAWordOrBeginsWithOne) {
  const std::vector<std::string> words = {"ab(", "abc(", "b("};
  const std::regex pattern(BesideWords(words, " ", "x"));
  std::mt19937 random(3);
  int begun = 0, beside = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t length = random() % 6; text.size() < length;) text += "abc( x"[random() % 6];
    const auto is_of = [&](const std::string& word) { return text.starts_with(word) || word.starts_with(text); };
    const bool of_words = std::ranges::any_of(words, is_of);
    std::smatch match;
    const bool left = std::regex_search(text, match, pattern, std::regex_constants::match_continuous);
    begun += of_words, beside += left;
    ASSERT_FALSE(of_words && left) << text;
    if (!left && !of_words) {
      // A text that neither begins with one of the words nor is a beginning of one differs from every word after
      // `common` bytes. The pattern may refuse such a text only because of the byte after these `common` bytes: an
      // excluded "x", or a space at the beginning.
      size_t common = 0;
      for (const std::string& word : words) {
        const auto [a, b] = std::ranges::mismatch(word, text);
        common = std::max(common, static_cast<size_t>(b - text.begin()));
      }
      ASSERT_TRUE(text[common] == 'x' || (common == 0 && text[0] == ' ')) << text;
    }
  }
  EXPECT_GT(begun, 1000);
  EXPECT_GT(beside, 1000);
}

}  // namespace
}  // namespace quire
