#include "coordinator/api/requests/structured_output.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "comm/base/json.h"
#include "comm/schema/schema_work.h"
#include "coordinator/api/requests/schema_check.h"
#include "coordinator/api/requests/structural_tag_check.h"
#include "coordinator/http/api_error.h"

namespace quire {
namespace {

OrderedJson ParseOrdered(const std::string& text) { return OrderedJson::parse(text); }

std::string RuleFault(const std::string& body) {
  try {
    ReadStructuredOutput(ParseOrdered(body));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param;
  }
  return "";
}

TEST(StructuredOutputTest, EveryStructuredOutputField_BecomesAGrammar) {
  struct Case {
    const char* body;
    GrammarSource grammar;
  };
  const Case cases[] = {
      {R"({})", {}},
      {R"({"response_format": null, "guided_json": null})", {}},
      {R"({"response_format": {"type": "text"}})", {}},
      {R"({"response_format": {"type": "json_object"}})", {GrammarSource::kJsonSchema, R"({"type":"object"})"}},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, )"
       R"("schema": {"type": "integer"}}}})",
       {GrammarSource::kJsonSchema, R"({"type":"integer"})"}},
      {R"({"structured_outputs": {"json": "{\"type\": \"null\"}"}})",
       {GrammarSource::kJsonSchema, R"({"type":"null"})"}},
      {R"({"structured_outputs": {"json": null, "regex": "a+"}})", {GrammarSource::kRegex, "a+"}},
      {R"({"structured_outputs": {"json_object": true}})", {GrammarSource::kJson, ""}},
      {R"({"structured_outputs": {"structural_tag": {"format": {"type": "any_text"}}}})",
       {GrammarSource::kStructuralTag, R"({"format":{"type":"any_text"}})"}},
      {R"({"structured_outputs": {"structural_tag": "{\"format\": {\"type\": \"regex\", \"pattern\": \"a\"}}"}})",
       {GrammarSource::kStructuralTag, R"({"format":{"type":"regex","pattern":"a"}})"}},
      {R"({"guided_json": {"type": "null"}})", {GrammarSource::kJsonSchema, R"({"type":"null"})"}},
      {R"({"guided_regex": "b"})", {GrammarSource::kRegex, "b"}},
      {R"({"guided_grammar": "root ::= \"a\""})", {GrammarSource::kEbnf, "root ::= \"a\""}},
      {R"({"guided_choice": ["a\"\\", "b\nc", "é"]})",
       {GrammarSource::kEbnf, "root ::= \"a\\\"\\\\\" | \"b\\u000ac\" | \"é\""}},
  };
  for (const auto& [body, grammar] : cases) {
    const StructuredOutput found = ReadStructuredOutput(ParseOrdered(body));
    EXPECT_EQ(found.grammar.kind, grammar.kind) << body;
    EXPECT_EQ(found.grammar.text, grammar.text) << body;
    EXPECT_EQ(found.field.empty(), !grammar) << body;
  }
}

TEST(StructuredOutputTest, ListsOfChoices_HaveTheSizeLimitOfOtherGrammars) {
  const auto fault = [](size_t bytes) {
    const std::string choice(bytes, 'y');
    return RuleFault(R"({"structured_outputs": {"choice": [")" + choice + R"(", ")" + choice + "\"]}}");
  };
  const size_t around = std::string("root ::= \"\" | \"\"").size();
  EXPECT_EQ(fault((kMaxGrammarBytes - around) / 2), "");
  EXPECT_EQ(fault((kMaxGrammarBytes - around) / 2 + 1), "structured_outputs.choice");
}

TEST(StructuredOutputTest, SchemaMembers_KeepTheirOrder) {
  const char* schema = R"({"properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["z","a"]})";
  EXPECT_EQ(ReadStructuredOutput(ParseOrdered(std::string("{\"guided_json\":") + schema + "}")).grammar.text, schema);
}

/// Returns the reason why a structural tag with this format is refused; "" when it is accepted.
std::string FormatFault(const std::string& format) {
  return WhyTagNotKept(ParseOrdered("{\"format\":" + format + "}"));
}

TEST(StructuralTagTest, EveryKindOfFormat_IsAccepted) {
  for (const char* format : {
           R"({"type": "const_string", "value": "a"})",
           R"({"type": "json_schema", "json_schema": {"type": "object"}, )"
           R"("style": "glm_xml", "any_order": true, "max_whitespace_cnt": 2, "excludes": ["</"]})",
           R"({"type": "json_schema", "json_schema": true, "max_whitespace_cnt": null})",
           R"({"type": "qwen_xml_parameter", "json_schema": {"type": "object"}})",
           R"({"type": "any_text", "excludes": ["a"]})",
           R"({"type": "grammar", "grammar": "root ::= \"a\""})",
           R"({"type": "regex", "pattern": "a"})",
           R"({"type": "sequence", "elements": [{"type": "any_text"}, )"
           R"({"type": "or", "elements": [{"type": "any_text"}]}]})",
           R"({"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": ["a", ""]})",
           R"({"type": "tag", "begin": {"type": "token", "token": 5}, "content": {"type": "any_text"}, )"
           R"("end": {"token": "<a>"}})",
           R"({"type": "triggered_tags", "triggers": ["<"], )"
           R"("tags": [{"begin": "<a", "content": {"type": "any_text"}, "end": ">"}], "stop_after_first": true})",
           R"({"type": "token_triggered_tags", "trigger_tokens": [1], )"
           R"("tags": [{"type": "tag", "begin": {"token": 1}, "content": {"type": "any_text"}, "end": ">"}]})",
           R"({"type": "tags_with_separator", "tags": [{"begin": "<a", "content": {"type": "any_text"}, )"
           R"("end": ">"}], "separator": ""})",
           R"({"type": "star", "content": {"type": "plus", "content": {"type": "optional", )"
           R"("content": {"type": "any_text"}}}})",
           R"({"type": "repeat", "min": 2, "max": -1, "content": {"type": "repeat", "min": 0, "max": 128, )"
           R"("content": {"type": "token", "token": "x"}}})",
           R"({"type": "exclude_token", "exclude_tokens": [1, "x"]})",
           R"({"type": "any_tokens"})",
           R"({"type": "dispatch", "rules": [["<a", {"type": "any_text"}]], "loop": false, "excludes": ["b"]})",
       })
    EXPECT_EQ(FormatFault(format), "") << format;
}

TEST(StructuralTagTest, Errors_NameThePlaceInTheTag) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "token_dispatch", "rules": [[5, {"type": "any_text"}]]})", "format.type \"token_dispatch\""},
      {R"({"content": {"type": "any_text"}})", "format.type is missing"},
      {R"({"type": "star", "content": {"begin": "a", "content": {"type": "any_text"}, "end": "b"}})",
       "format.content.type is missing"},
      {R"({"type": "star", "content": 5})", "format.content must be an object"},
      {R"({"type": "sequence", "elements": []})", "format.elements must be a list"},
      {R"({"type": "sequence", "elements": [{"type": "any_text"}, {"type": 5}]})",
       "format.elements.1.type must be a string"},
      {R"({"type": "any_text", "max_chars": 5})", "format.max_chars is not supported"},
      {R"({"type": "any_tokens", "max_tokens": 5})", "format.max_tokens is not supported"},
      {R"({"type": "const_string"})", "format.value is missing"},
      {R"({"type": "regex", "pattern": ""})", "format.pattern must be a string"},
      {R"({"type": "repeat", "min": 0, "max": 129, "content": {"type": "any_text"}})", "format.max must be an integer"},
      {R"({"type": "repeat", "min": -1, "max": 2, "content": {"type": "any_text"}})", "format.min must be an integer"},
      {R"({"type": "repeat", "min": 1000000000, "max": -1, "content": {"type": "any_text"}})",
       "format.min must be an integer"},
      {R"({"type": "repeat", "min": 3, "max": 2, "content": {"type": "any_text"}})", "format.max is less"},
      {R"({"type": "token", "token": -1})", "format.token must be"},
      {R"({"type": "token", "token": 4294967296})", "format.token must be"},
      {R"({"type": "tag", "begin": {"type": "any_text"}, "content": {"type": "any_text"}, "end": ""})",
       "format.begin.type must be token"},
      {R"({"type": "triggered_tags", "triggers": ["<"], "tags": [{"type": "regex", "pattern": "a"}]})",
       "format.tags.0.type must be tag"},
      {R"({"type": "dispatch", "rules": [["", {"type": "any_text"}]]})", "format.rules.0 must be"},
      {R"({"type": "dispatch", "rules": [["a", {}]]})", "format.rules.0.1.type is missing"},
      {R"({"type": "json_schema", "json_schema": {"type": "array", "uniqueItems": true}})",
       "format.json_schema cannot be kept to exactly: uniqueItems"},
      {R"({"type": "json_schema", "json_schema": {}, "style": "yaml"})", "format.style is not known"},
      {R"({"type": "json_schema", "json_schema": {}, "max_whitespace_cnt": 100000})",
       "format.max_whitespace_cnt must be"},
  };
  for (const auto& [format, fault] : cases) EXPECT_TRUE(FormatFault(format).starts_with(fault)) << FormatFault(format);
  EXPECT_EQ(WhyTagNotKept(ParseOrdered(R"({"type": "structural_tag"})")), "format is missing");
  EXPECT_EQ(WhyTagNotKept(ParseOrdered(R"({"structures": [], "format": {"type": "any_text"}})")),
            "structures is not supported");
  EXPECT_EQ(RuleFault(R"({"response_format": {"type": "structural_tag", "format": {"type": "x"}}})"),
            "response_format");
  EXPECT_EQ(RuleFault(R"({"structured_outputs": {"structural_tag": "{"}})"), "structured_outputs.structural_tag");
}

TEST(StructuralTagTest, NestedFormats_AreRefused_BeyondTheDepthLimit) {
  const auto nested = [](int depth) {
    std::string format = R"({"type": "any_text"})";
    for (int level = 1; level < depth; ++level) format = R"({"type": "star", "content": )" + format + "}";
    return FormatFault(format);
  };
  EXPECT_EQ(nested(32), "");
  EXPECT_NE(nested(33).find("is nested deeper than 32 formats"), std::string::npos);
}

TEST(StructuredOutputTest, Errors_NameTheFieldThatIsWrong) {
  EXPECT_EQ(RuleFault(R"({"response_format": 5})"), "response_format");
  EXPECT_EQ(RuleFault(R"({"response_format": {"type": "xml"}})"), "response_format");
  EXPECT_EQ(RuleFault(R"({"response_format": {"type": "json_schema"}})"), "response_format.json_schema");
  EXPECT_EQ(RuleFault(R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(
      RuleFault(R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strictly": true}}})"),
      "response_format.json_schema.strictly");
  EXPECT_EQ(RuleFault(R"({"structured_outputs": {"xml": "a"}})"), "structured_outputs.xml");
  EXPECT_EQ(RuleFault(R"({"structured_outputs": {"json": {}, "regex": "a"}})"), "structured_outputs");
  EXPECT_EQ(RuleFault(R"({"structured_outputs": {"choice": []}})"), "structured_outputs.choice");
  EXPECT_EQ(RuleFault(R"({"guided_choice": ["a", ""]})"), "guided_choice");
  EXPECT_EQ(RuleFault(R"({"guided_regex": 5})"), "guided_regex");
  EXPECT_EQ(RuleFault(R"({"guided_json": "{"})"), "guided_json");
  EXPECT_EQ(RuleFault(R"({"guided_json": {}, "guided_regex": "a"})"), "guided_regex");
  EXPECT_EQ(RuleFault(R"({"response_format": {"type": "json_object"}, "guided_json": {}})"), "guided_json");
}

TEST(StructuredOutputTest, JsonInStrings_HasTheLimitsOfRequestBodies) {
  const auto nested = [](int depth) {
    std::string schema = R"({"type":"null"})";
    for (int level = 1; level < depth; ++level) schema = R"({"type":"array","items":)" + schema + "}";
    return schema;
  };
  const auto quoted = [](const std::string& text) { return OrderedJson(text).dump(); };
  EXPECT_EQ(RuleFault(R"({"guided_json":)" + quoted(nested(32)) + "}"), "");
  for (const std::string& text : {nested(33), nested(2000), std::string(R"({"type":"null","type":"null"})"),
                                  std::string(R"({"type":"null"} 1)"), std::string("{")}) {
    EXPECT_EQ(RuleFault(R"({"guided_json":)" + quoted(text) + "}"), "guided_json");
    EXPECT_EQ(RuleFault(R"({"structured_outputs":{"structural_tag":)" + quoted(text) + "}}"),
              "structured_outputs.structural_tag");
  }
  EXPECT_EQ(RuleFault(R"({"structured_outputs":{"structural_tag":"\"{}\""}})"), "structured_outputs.structural_tag")
      << "the text of a text";
}

TEST(StructuredOutputTest, MayAskForForm_IsTrue_WhenTheBodyMayNameAStructuredField) {
  EXPECT_FALSE(MayAskForForm(R"({"prompt": "a response in json", "max_tokens": 5})"));
  for (const char* body : {R"({"response_format":null})", R"({"structured_outputs":{}})", R"({"guided_json":{}})",
                           R"({"guided_regex":"a"})", R"({"guided_choice":["a"]})", R"({"guided_grammar":"a"})",
                           R"({"\u0067uided_regex":"a"})"}) {
    EXPECT_TRUE(MayAskForForm(body)) << body;
  }
}

TEST(SchemaCheckTest, SupportedSchemas_AreAccepted) {
  for (
      const char* schema :
      {R"({})", R"(true)", R"({"type": "string", "pattern": "a{1,128}"})", R"({"type": "string", "maxLength": 128})",
       R"({"type": "object"})", R"({"type": ["string", "null"], "maxLength": 5, "title": "T", "default": "x"})",
       R"({"$defs": {"N": {"type": "integer", "minimum": 0, "multipleOf": 3}}, )"
       R"("type": "array", "items": {"$ref": "#/$defs/N"}, "maxItems": 4})",
       R"({"type": "object", "properties": {"uniqueItems": {"type": "string", "format": "date"}}, )"
       R"("required": ["uniqueItems"], "additionalProperties": false})",
       R"({"anyOf": [{"type": "null"}, {"const": {"not": 1}}, {"type": "string", "enum": ["a"]}]})",
       R"({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}, )"
       R"("additionalProperties": {"type": "number"}})",
       R"({"type": "array", "prefixItems": [{"type": "string", "pattern": "^a\\d\\.[!-~]"}], "items": false})",
       // These schemas have members that `properties` does not name, keywords of other types, or combinations.
       R"({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]})", R"({"type": "string", "minimum": 5})",
       R"({"type": "string", "pattern": "a\"b\\\\\\n", "maxLength": 5})", R"({"enum": ["a", 5], "type": "string"})",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {}}, "type": "string"})", R"({"anyOf": [{}], "properties": {}})",
       R"({"allOf": [{"type": "object"}, {"required": ["a"]}]})",
       R"({"type": "object", "properties": {"a": false}, "patternProperties": {"^x": {}}})",
       R"({"propertyNames": {"pattern": "^a"}, "unevaluatedProperties": false})",
       R"({"type": "array", "maxItems": 1, "uniqueItems": true, "unevaluatedItems": false})",
       R"({"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "discriminator": {"propertyName": "k"}, "$defs": {)"
       R"("A": {"properties": {"k": {"const": "a"}}, "required": ["k"]}, )"
       R"("B": {"properties": {"k": {"const": "b"}}, "required": ["k"]}}})"}) {
    EXPECT_EQ(WhyNotKept(ParseOrdered(schema)), "") << schema;
  }
}

TEST(SchemaCheckTest, KeywordsWithoutEffect_AreIgnoredAndListed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "integer", "format": "uint32"})", "format"},
      {R"({"type": "string", "format": "password", "writeOnly": true})", "format"},
      {R"({"type": "string", "format": "uuid", "pattern": "^[0-9a-f]+$"})", "format"},
      {R"({"type": "string", "x-order": 1})", "x-order"},
      {R"({"properties": {"v": {"type": "string", "contentEncoding": "base64"}}})", "properties.v.contentEncoding"},
      {R"({"vocabulary": 1})", "vocabulary"},
  };
  for (const auto& [schema, place] : cases) {
    for (const SchemaPromise promise : {SchemaPromise::kExact, SchemaPromise::kAsFarAs}) {
      EXPECT_EQ(WhyNotKept(ParseOrdered(schema), promise), "") << schema;
      EXPECT_TRUE(PassedOver(ParseOrdered(schema), promise).starts_with(std::string(place) + " ")) << schema;
    }
  }
  EXPECT_EQ(
      PassedOver(ParseOrdered(R"({"title": "T", "type": "array", "uniqueItems": false, "items": {"default": 1}})"),
                 SchemaPromise::kAsFarAs),
      "");
}

TEST(SchemaCheckTest, UnenforcedKeywords_AreReportedOnce_WhereverTheyStand) {
  std::ostringstream told;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("told", std::make_shared<spdlog::sinks::ostream_sink_mt>(told)));
  for (const char* schema : {R"({"type": "string", "x-told-one": 1})", R"({"type": "string", "x-told-one": 2})",
                             R"({"properties": {"v": {"x-told-one": 1}, "w": {"x-told-two\n": 1}}})"}) {
    for (const SchemaPromise promise : {SchemaPromise::kExact, SchemaPromise::kAsFarAs})
      SchemaGrammar(ParseOrdered(schema), "guided_json", promise);
  }
  spdlog::set_default_logger(before);
  const auto count = [text = told.str()](const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("of schemas is passed over: \"x-told-one\" "), 1u) << told.str();
  EXPECT_EQ(count("of schemas is passed over: \"x-told-two\\n\" "), 1u) << told.str();
  EXPECT_EQ(count("passed over"), 2u) << told.str();
}

TEST(SchemaCheckTest, UnsupportedKeywords_AreRefusedWithTheirPlace_WhenTheSchemaMustBeKeptExactly) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "array", "items": {}, "uniqueItems": true})", "uniqueItems"},
      {R"({"type": "object", "properties": {"a": {"type": "array", "contains": {}}}})", "properties.a.contains"},
      {R"({"not": {}})", "not"},
      {R"({"if": {}, "then": {}})", "if"},
      {R"({"type": "object", "properties": {"a": {}}, "dependentRequired": {"a": ["b"]}})", "dependentRequired"},
      {R"({"type": "number", "multipleOf": 0.5})", "multipleOf"},
      {R"({"type": "string", "pattern": "(?=a)b"})", "pattern"},
      {R"({"type": "string", "maxLength": 129})", "maxLength"},
      {R"({"type": "array", "items": {}, "minItems": 129})", "minItems"},
      {R"({"type": "string", "pattern": "a{5,129}"})", "pattern"},
      {R"({"$defs": {"a": {"type": "array", "items": {"not": {}}}}})", "$defs.a.items.not"},
      {R"({"type": "object", "minProperties": 2})", "minProperties"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "oneOf"},
      {R"({"allOf": [{"type": "object"}], "unevaluatedProperties": false})", "unevaluatedProperties"},
  };
  for (const auto& [schema, keyword] : cases) {
    const std::string why = WhyNotKept(ParseOrdered(schema));
    EXPECT_TRUE(why.starts_with(std::string(keyword) + " ")) << schema << ": " << why;
    EXPECT_EQ(WhyNotKept(ParseOrdered(schema), SchemaPromise::kAsFarAs), "") << schema;
    EXPECT_NE(PassedOver(ParseOrdered(schema), SchemaPromise::kAsFarAs).find(keyword), std::string::npos) << schema;
  }
}

TEST(SchemaCheckTest, InvalidSchemas_AreRefusedWithThePlace_WhetherTheGrammarMustBeExactOrNot) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "strange"})", "type"},
      {R"({"properties": {"a": {"type": "array", "items": {"type": 5}}}})", "properties.a.items.type"},
      {R"({"$ref": "http://example.com/schema"})", "$ref"},
      {R"({"anyOf": [{"$ref": "#/$defs/none"}]})", "anyOf.0.$ref"},
      {R"({"$ref": "#"})", "the schema refers to itself"},
      {R"({"anyOf": []})", "anyOf"},
      {R"({"enum": []})", "enum"},
      {R"({"required": "a"})", "required"},
      {R"({"properties": {"a": 5}})", "properties.a"},
      {R"({"type": "string", "maxLength": -1})", "maxLength"},
      {R"(5)", "the schema is no schema"},
  };
  for (const auto& [schema, place] : cases) {
    for (const SchemaPromise promise : {SchemaPromise::kExact, SchemaPromise::kAsFarAs})
      EXPECT_TRUE(WhyNotKept(ParseOrdered(schema), promise).starts_with(place))
          << schema << WhyNotKept(ParseOrdered(schema), promise);
  }
}

/// Returns the units of work that the schemas of a request take; the request may be refused.
int64_t UnitsOf(const OrderedJson& body) {
  const SchemaWork work(100 * kSchemaWork);
  try {
    ReadStructuredOutput(body);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
  }
  return work.spent();
}

TEST(StructuredOutputTest, LargeSchemas_AreRefused_BeforeTheirPatternsAreRead) {
  const std::string pattern = std::string(kMaxGrammarBytes, 'a') + "(b|c.{30}){9}";
  const OrderedJson schema = {{"type", "string"}, {"pattern", pattern}};
  EXPECT_EQ(UnitsOf({{"guided_json", schema}}), 0);
  const OrderedJson tag = {{"format", {{"type", "json_schema"}, {"json_schema", schema}}}};
  EXPECT_EQ(UnitsOf({{"structured_outputs", {{"structural_tag", tag}}}}), 0);
}

TEST(StructuredOutputTest, Schemas_AreCheckedOnce) {
  const OrderedJson schema = {{"type", "string"}, {"pattern", "^[a-z]{40}$"}};
  const int64_t units = UnitsOf({{"guided_json", schema}});
  const SchemaWork work(kSchemaWork);
  EXPECT_EQ(WhyNotKept(schema), "");
  EXPECT_EQ(units, work.spent());
}

TEST(StructuredOutputTest, AllSchemasOfARequest_ShareOneBudget) {
  const OrderedJson dear = {{"type", "string"}, {"pattern", "^(?:[a-c]{60}){60}$"}};
  OrderedJson formats = OrderedJson::array();
  for (int i = 0; i < 50; ++i) formats.push_back({{"type", "json_schema"}, {"json_schema", dear}});
  EXPECT_EQ(WhyNotKept(dear), "") << "one alone";
  const OrderedJson tag = {{"format", {{"type", "sequence"}, {"elements", formats}}}};
  EXPECT_LE(UnitsOf({{"structured_outputs", {{"structural_tag", tag}}}}), kSchemaWork);
}

TEST(SchemaCheckTest, HugeNumberBounds_AreIgnoredOrRefused) {
  EXPECT_EQ(WhyNotKept(ParseOrdered(R"({"type":"number","maximum":1.7976931348623157e308})")), "");
  EXPECT_TRUE(WhyNotKept(ParseOrdered(R"({"type":"number","minimum":1e200})")).starts_with("minimum"));
  EXPECT_EQ(WhyNotKept(ParseOrdered(R"({"type":"number","minimum":1e200})"), SchemaPromise::kAsFarAs), "");
}

TEST(StructuredOutputTest, SchemasThatAreNotStrict_MayHaveUnsupportedKeywords) {
  const auto body = [](const char* strict) {
    return std::string(R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": )"
                       R"({"type": "array", "uniqueItems": true})") +
           strict + "}}}";
  };
  EXPECT_EQ(RuleFault(body("")), "");
  EXPECT_EQ(RuleFault(body(R"(, "strict": false)")), "");
  EXPECT_EQ(RuleFault(body(R"(, "strict": true)")), "response_format.json_schema.schema");
  EXPECT_EQ(RuleFault(R"({"guided_json": {"type": "array", "uniqueItems": true}})"), "guided_json");
}

}  // namespace
}  // namespace quire
