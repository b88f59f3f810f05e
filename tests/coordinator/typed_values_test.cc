// Tests tool-call arguments that are bare text between tags: their JSON under the tool's schema, and the grammars,
// which must accept only calls that the schema accepts.
#include "coordinator/text/answers/typed_values.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "comm/base/json.h"
#include "comm/grammar/grammar_compiler.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"
#include "coordinator/text/answers/call_grammar.h"
#include "coordinator/text/answers/tool.h"

namespace quire {
namespace {

/// Returns the JSON of a text for the parameter "v" with this schema; `definitions` are the schema's $defs.
std::string Typed(const std::string& schema, const std::string& text, const std::string& definitions = "{}") {
  Tool tool;
  tool.parameters =
      OrderedJson::parse(R"({"type":"object","properties":{"v":)" + schema + R"(},"$defs":)" + definitions + "}");
  return TypedValue(tool, "v", text);
}

TEST(TypedValues, TypedValue_FollowsReferencesAlternativesAndEnums) {
  struct Case {
    const char *schema, *text, *value;
  };
  for (const auto& [schema, text, value] : std::initializer_list<Case>{
           {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "1234", "\"1234\""},
           {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "true", "\"true\""},
           {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "null", "null"},
           {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "{\"a\": 1}", R"("{\"a\": 1}")"},
           {R"({"oneOf":[{"type":"boolean"},{"type":"null"}]})", "True", "true"},
           {R"({"oneOf":[{"type":"boolean"},{"type":"null"}]})", "None", "null"},
           {R"({"type":["boolean","null"]})", "False", "false"},
           {R"({"type":"boolean"})", "TRUE", "true"},
           {R"({"type":["boolean","null"]})", "NULL", "null"},
           {R"({"type":["string","null"]})", "NULL", "\"NULL\""},
           {R"({"type":["string","boolean"]})", "TRUE", "\"TRUE\""},
           {R"({"type":"string","nullable":true})", "1", "\"1\""},
           {R"({"$ref":"#/$defs/Code"})", "1", "\"1\""},
           {R"({"$ref":"#/$defs/Code"})", " 2\n", "\"2\""},
           {R"({"allOf":[{"$ref":"#/$defs/Code"}],"default":"1"})", "2", "\"2\""},
           {R"({"allOf":[{"type":"string"},{"minLength":1}]})", "5", "\"5\""},
           {R"({"enum":["1","2"]})", "1", "\"1\""},
           {R"({"enum":[1,"1"]})", "1", "\"1\""},
           {R"({"enum":[1,2,"auto"]})", "2", "2"},
           {R"({"enum":[1,2,"auto"]})", "auto", "\"auto\""},
           {R"({"enum":["1","2"]})", "3", "\"3\""},
           {R"({"const":"5"})", "5", "\"5\""},
           {R"({"const":5})", "5", "5"},
           {R"({"const":" a "})", " a ", "\" a \""},
           {R"({"enum":["null","a"],"type":["string","null"]})", "null", "\"null\""},
           {R"({"anyOf":[{"enum":["auto"]},{"type":"integer"}]})", "7", "7"},
           {R"({"anyOf":[{"type":"string","pattern":"^a"},{"type":"integer"}]})", "7", "7"},
           {R"({"anyOf":[{"type":"string","pattern":"^a"},{"type":"integer"}]})", "a7", "\"a7\""},
           {R"({"anyOf":[{"$ref":"#/$defs/Code"},{"type":"array"}]})", "[\"1\"]", "[\"1\"]"},
           {R"({"type":"array"})", "['a', True]", R"(["a", true])"},
           {R"({"type":"object"})", "{'a': None}", R"({"a": null})"},
           {R"({"type":"integer","maximum":5})", "9", "9"},
           {R"({"type":"string"})", " 12 ", "\" 12 \""},
           {R"({"type":"string","format":"date"})", " 2024-01-02 ", "\"2024-01-02\""},
           {R"({})", "12", "12"},
           {R"({"description":"d"})", "12x", "\"12x\""},
           {R"({"$ref":"#/$defs/none"})", "12", "12"},
       })
    EXPECT_EQ(Typed(schema, text, R"({"Code":{"type":"string","enum":["1","2"]}})"), value) << schema << " " << text;
}

TEST(TypedValues, TypedValue_FollowsAdditionalAndPatternProperties) {
  Tool tool;
  tool.parameters = OrderedJson::parse(R"({"type":"object","additionalProperties":{"type":"string"}})");
  EXPECT_EQ(TypedValue(tool, "any", "5"), "\"5\"");
  tool.parameters = OrderedJson::parse(R"({"type":"object","patternProperties":{"^n_":{"type":"string"}}})");
  EXPECT_EQ(TypedValue(tool, "n_a", "5"), "\"5\"");
  EXPECT_EQ(TypedValue(tool, "a", "5"), "5");
  tool.parameters = OrderedJson::parse(R"({"allOf":[{"properties":{"a":{"type":"string"}}},{"$ref":"#/$defs/B"}],)"
                                       R"("$defs":{"B":{"properties":{"b":{"type":"string"}}}}})");
  EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"");
  EXPECT_EQ(TypedValue(tool, "b", "5"), "\"5\"");
}

/// Returns a schema of a string "a", and of strings "p0" to "p39" with patterns that take too much work to expand.
OrderedJson DearParameters() {
  OrderedJson schema = {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}};
  for (int i = 0; i < 40; ++i)
    schema["properties"]["p" + std::to_string(i)] = {{"type", "string"}, {"pattern", "(.*a.{20}){20}(b|c.{30}){9}x"}};
  return schema;
}

TEST(TypedValues, TypedValue_ReadsASchemaOncePerParameter_WithinOneBudgetOfTheRequest) {
  Tool tool{"f", nullptr, DearParameters(), false, std::make_shared<ParameterTypes>()};
  EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"");
  const int64_t once = tool.types->spent();
  EXPECT_GT(once, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"");
  EXPECT_EQ(tool.types->spent(), once);
  for (int i = 0; i < 3; ++i) {
    const std::string dear = "p" + std::to_string(i);
    EXPECT_EQ(TypedValue(tool, dear, "5"), "\"5\"") << "a pattern beyond the bound leaves its type";
  }
  Tool other{"g", nullptr, OrderedJson::parse(R"({"properties":{"s":{"type":"string"}}})"), false, tool.types};
  EXPECT_EQ(TypedValue(other, "s", "5"), "\"5\"") << "dear parameters leave something for others";
  for (int i = 3; i < 40; ++i) TypedValue(tool, "p" + std::to_string(i), "5");
  EXPECT_LE(tool.types->spent(), ParameterTypes::kWork);
  EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"") << "what is known stays";
}

TEST(TypedValues, ParameterTypes_KeepABoundedNumberOfTypes_WhenAModelInventsNames) {
  OrderedJson schema = {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}};
  for (int i = 0; i < 50; ++i) schema["additionalProperties"]["enum"].push_back(std::to_string(i));
  Tool tool{"f", nullptr, schema, false, std::make_shared<ParameterTypes>()};
  EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"");
  for (int i = 0; i < 10'000; ++i) {
    const std::string json = TypedValue(tool, "made_up_" + std::to_string(i), "7");
    if (i < 100) {
      EXPECT_EQ(json, "\"7\"");
    }
  }
  EXPECT_GT(tool.types->num_kept(), 100u);
  EXPECT_LE(tool.types->num_kept(), static_cast<size_t>(ParameterTypes::kMostKept / 8));
  EXPECT_EQ(TypedValue(tool, "a", "5"), "\"5\"") << "what is known stays";
  EXPECT_LE(tool.types->spent(), ParameterTypes::kWork);
}

TEST(TypedValues, TypedValue_ReadsASchema_WithinABoundOfWork) {
  const SchemaWork work(100 * kSchemaWork);
  Tool tool{"f", nullptr, DearParameters(), false};
  EXPECT_EQ(TypedValue(tool, "p0", "5"), "\"5\"");
  EXPECT_LE(work.spent(), ParameterTypes::kWork);
  const std::string schema =
      R"({"type":"array","items":{"enum":)" + OrderedJson(std::vector<int>(5000, 1)).dump() + "}}";
  std::string items = "[1";
  for (int i = 0; i < 5000; ++i) items += ",1";
  EXPECT_EQ(Typed(schema, items + "]"), items + "]");
  EXPECT_LE(work.spent(), 2 * ParameterTypes::kWork) << "values are compared within bounds, too";
}

constexpr TokenId kTypedStop = 0;

/// The grammar of one tool's calls in one format, with a vocabulary of single bytes and some tags.
class Calls {
 public:
  Calls(ToolFormat format, const std::string& schema) : schema_(OrderedJson::parse(schema)) {
    auto use = std::make_shared<ToolUse>();
    use->tools = {{"f", nullptr, schema_, true}};
    use->choice.mode = ToolChoice::kRequired;
    use->parallel = false;
    shape_ = {{format, ReasoningFormat::kNone}, ReasoningStart::kNone, use};
    Vocabulary vocabulary{{""}, {kTypedStop}};
    for (int byte = 0; byte < 256; ++byte) vocabulary.bytes.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {"</parameter>", "</arg_value>", "</arg_key>", "</function>", "</tool_call>", "true", "12"})
      vocabulary.bytes.emplace_back(more);
    for (const std::string name : {"a", "b", "l", "o", "code"}) {  // makes random walks reach these tags
      vocabulary.bytes.push_back("<parameter=" + name + ">");
      vocabulary.bytes.push_back("<arg_key>" + name + "</arg_key>");
    }
    bytes_ = vocabulary.bytes;
    GrammarCompiler compiler(vocabulary, static_cast<int>(bytes_.size()));
    grammar_ = compiler.Compile(CallGrammar({shape_, {schema_}, {}, {}}));
  }

  /// Returns a random text that the grammar accepts; nullopt when the text does not end within 300 tokens.
  std::optional<std::string> Walk(std::mt19937& random) const {
    GrammarMatcher matcher(grammar_);
    std::vector<uint32_t> allowed(matcher.num_words());
    std::vector<TokenId> tokens;
    std::string text;
    while (tokens.size() < 300) {
      if (!matcher.Follow(tokens) || !matcher.Allow(allowed)) {
        ADD_FAILURE() << "nothing may follow " << text;
        return std::nullopt;
      }
      if ((allowed[0] & 1) != 0) return text;
      std::vector<TokenId> all, ends;
      for (size_t token = 1; token < bytes_.size(); ++token) {
        if ((allowed[token / 32] >> token % 32 & 1) == 0) continue;
        const bool ascii =
            bytes_[token].size() > 1 || (bytes_[token][0] >= ' ' && bytes_[token][0] <= '~') || bytes_[token] == "\n";
        if (ascii || random() % 8 == 0) all.push_back(static_cast<TokenId>(token));
        const bool ends_something = bytes_[token].size() > 4 || bytes_[token] == "\n" || bytes_[token] == "\"" ||
                                    bytes_[token] == "}" || bytes_[token] == "]" || bytes_[token] == ">";
        if (ends_something) ends.push_back(static_cast<TokenId>(token));
      }
      if (all.empty()) continue;
      const auto& from = !ends.empty() && random() % 2 == 0 ? ends : all;
      tokens.push_back(from[random() % from.size()]);
      text += bytes_[static_cast<size_t>(tokens.back())];
    }
    return std::nullopt;
  }

  /// Returns the arguments of the one call in the text; "" when there is none.
  std::string ArgumentsIn(const std::string& text) const {
    const auto parser = MakeAnswerParser(shape_);
    AnswerParts parts;
    parser->Push(text, parts);
    parser->Finish(false, parts);
    std::string arguments;
    for (const AnswerPart& part : parts) {
      if (part.kind == AnswerPart::kArguments) arguments += part.text;
      if (part.kind == AnswerPart::kBroken) return "";
    }
    return arguments;
  }
  bool Accept(const std::string& arguments) const {
    const OrderedJson value = OrderedJson::parse(arguments, nullptr, false);
    return !value.is_discarded() && Accepts(SchemaReader(schema_), schema_, value);
  }

 private:
  OrderedJson schema_;
  AnswerShape shape_;
  std::vector<std::string> bytes_;
  std::shared_ptr<const CompiledGrammar> grammar_;
};

TEST(XmlCalls, Arguments_KeepTheirSchema_InAllTextsThatTheGrammarAccepts) {
  std::mt19937 random(3);
  for (const char* schema : {
           R"({"type":"object","properties":{"code":{"$ref":"#/$defs/Code"}},"required":["code"],)"
           R"("additionalProperties":false,"$defs":{"Code":{"type":"string","enum":["1","2"]}}})",
           R"({"type":"object","properties":{"code":{"enum":["1","2"]}},"required":["code"],)"
           R"("additionalProperties":false})",
           R"({"type":"object","properties":{"code":{"anyOf":[{"type":"string","enum":["1","true"]},)"
           R"({"type":"null"}]}},"required":["code"],"additionalProperties":false})",
           R"({"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},)"
           R"("b":{"type":["integer","string"],"maxLength":3}},"required":["a","b"]})",
           R"({"type":"object","properties":{"a":{"const":" x "},)"
           R"("b":{"const":{"k":["</parameter>",1]}},"c":{"enum":[1,"1",null,"null",true]}},)"
           R"("required":["a","b","c"],"additionalProperties":false})",
           R"({"type":"object","properties":{"a":{"type":"string","pattern":"[0-9]","maxLength":4},)"
           R"("n":{"type":"number","minimum":0,"maximum":1}},"required":["a"],)"
           R"("additionalProperties":false})",
           R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"string",)"
           R"("maxLength":3},"maxItems":2},"o":{"type":"object","properties":{"x":{"type":"boolean"}},)"
           R"("required":["x"],"additionalProperties":false}},"required":["l","o"],)"
           R"("additionalProperties":{"type":"integer","minimum":5}})",
           R"({"type":"object","properties":{"u":{"oneOf":[{"type":"object",)"
           R"("properties":{"k":{"const":"a"}},"required":["k"],"additionalProperties":false},)"
           R"({"type":"integer"}]}},"required":["u"],"additionalProperties":false})",
           R"({"allOf":[{"type":"object","properties":{"a":{"type":"string","minLength":1,)"
           R"("maxLength":2}},"required":["a"]},{"required":["b"],)"
           R"("properties":{"b":{"type":"boolean"}}}]})",
       }) {
    for (const ToolFormat format : {ToolFormat::kQwen3Coder, ToolFormat::kGlm45}) {
      const Calls calls(format, schema);
      int ended = 0;
      for (int walk = 0; walk < 60; ++walk) {
        const auto text = calls.Walk(random);
        if (!text) continue;
        ++ended;
        const std::string arguments = calls.ArgumentsIn(*text);
        EXPECT_TRUE(calls.Accept(arguments)) << schema << "\n" << *text << "\n" << arguments;
      }
      EXPECT_GT(ended, 3) << schema;
    }
  }
}

}  // namespace
}  // namespace quire
