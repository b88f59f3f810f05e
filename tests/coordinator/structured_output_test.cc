#include "coordinator/api/structured_output.h"

#include <gtest/gtest.h>

#include "coordinator/api/api_error.h"
#include "coordinator/api/schema_check.h"

namespace quire {
namespace {

OrderedJson Parse(const std::string& text) { return OrderedJson::parse(text); }

std::string Fault(const std::string& body) {
  try {
    ReadStructuredOutput(Parse(body));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param;
  }
  return "";
}

TEST(StructuredOutputTest, EverySpellingBecomesAGrammar) {
  struct Case {
    const char* body;
    GrammarSource grammar;
  };
  const Case cases[] = {
      {R"({})", {}},
      {R"({"response_format": null, "guided_json": null})", {}},
      {R"({"response_format": {"type": "text"}})", {}},
      {R"({"response_format": {"type": "json_object"}})", {GrammarSource::kJsonSchema, R"({"type":"object"})"}},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "integer"}}}})",
       {GrammarSource::kJsonSchema, R"({"type":"integer"})"}},
      {R"({"structured_outputs": {"json": "{\"type\": \"null\"}"}})",
       {GrammarSource::kJsonSchema, R"({"type":"null"})"}},
      {R"({"structured_outputs": {"json": null, "regex": "a+"}})", {GrammarSource::kRegex, "a+"}},
      {R"({"structured_outputs": {"json_object": true}})", {GrammarSource::kJson, ""}},
      {R"({"structured_outputs": {"structural_tag": {"type": "x"}}})",
       {GrammarSource::kStructuralTag, R"({"type":"x"})"}},
      {R"({"guided_json": {"type": "null"}})", {GrammarSource::kJsonSchema, R"({"type":"null"})"}},
      {R"({"guided_regex": "b"})", {GrammarSource::kRegex, "b"}},
      {R"({"guided_grammar": "root ::= \"a\""})", {GrammarSource::kEbnf, "root ::= \"a\""}},
      {R"({"guided_choice": ["a\"\\", "b\nc", "é"]})",
       {GrammarSource::kEbnf, "root ::= \"a\\\"\\\\\" | \"b\\u000ac\" | \"é\""}},
  };
  for (const auto& [body, grammar] : cases) {
    const StructuredOutput found = ReadStructuredOutput(Parse(body));
    EXPECT_EQ(found.grammar.kind, grammar.kind) << body;
    EXPECT_EQ(found.grammar.text, grammar.text) << body;
    EXPECT_EQ(found.field.empty(), !grammar) << body;
  }
}

TEST(StructuredOutputTest, MembersKeepTheirOrder) {
  const char* schema = R"({"properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["z","a"]})";
  EXPECT_EQ(ReadStructuredOutput(Parse(std::string("{\"guided_json\":") + schema + "}")).grammar.text, schema);
}

TEST(StructuredOutputTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(Fault(R"({"response_format": 5})"), "response_format");
  EXPECT_EQ(Fault(R"({"response_format": {"type": "xml"}})"), "response_format");
  EXPECT_EQ(Fault(R"({"response_format": {"type": "json_schema"}})"), "response_format.json_schema");
  EXPECT_EQ(Fault(R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(Fault(R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strictly": true}}})"),
            "response_format.json_schema.strictly");
  EXPECT_EQ(Fault(R"({"structured_outputs": {"xml": "a"}})"), "structured_outputs.xml");
  EXPECT_EQ(Fault(R"({"structured_outputs": {"json": {}, "regex": "a"}})"), "structured_outputs");
  EXPECT_EQ(Fault(R"({"structured_outputs": {"choice": []}})"), "structured_outputs.choice");
  EXPECT_EQ(Fault(R"({"guided_choice": ["a", ""]})"), "guided_choice");
  EXPECT_EQ(Fault(R"({"guided_regex": 5})"), "guided_regex");
  EXPECT_EQ(Fault(R"({"guided_json": "{"})"), "guided_json");
  EXPECT_EQ(Fault(R"({"guided_json": {}, "guided_regex": "a"})"), "guided_regex");
  EXPECT_EQ(Fault(R"({"response_format": {"type": "json_object"}, "guided_json": {}})"), "guided_json");
}

TEST(SchemaCheckTest, WhatIsKeptToPasses) {
  for (
      const char* schema :
      {R"({})", R"(true)", R"({"type": "string", "pattern": "a{1,128}"})", R"({"type": "string", "maxLength": 128})",
       R"({"type": "object"})", R"({"type": ["string", "null"], "maxLength": 5, "title": "T", "default": "x"})",
       R"({"$defs": {"N": {"type": "integer", "minimum": 0, "multipleOf": 3}}, "type": "array", "items": {"$ref": "#/$defs/N"}, "maxItems": 4})",
       R"({"type": "object", "properties": {"uniqueItems": {"type": "string", "format": "date"}}, "required": ["uniqueItems"], "additionalProperties": false})",
       R"({"anyOf": [{"type": "null"}, {"const": {"not": 1}}, {"type": "string", "enum": ["a"]}]})",
       R"({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}, "additionalProperties": {"type": "number"}})",
       R"({"type": "array", "prefixItems": [{"type": "string", "pattern": "^a\\d\\.[!-~]"}], "items": false})"}) {
    EXPECT_EQ(WhyNotKept(Parse(schema)), "") << schema;
  }
}

TEST(SchemaCheckTest, LengthsOfTextsBecomePatternsWhereverSchemasStand) {
  const OrderedJson out = WithoutLengths(Parse(
      R"({"properties": {"minLength": {"type": "string", "minLength": 2}}, "items": {"anyOf": [{"maxLength": 3, "minLength": 1}]}, "const": {"maxLength": 5}})"));
  EXPECT_EQ(out["properties"]["minLength"]["pattern"], R"(^[^\x00-\x1f"\\]{2,}$)");
  EXPECT_EQ(out["items"]["anyOf"][0], Parse(R"({"pattern": "^[^\\x00-\\x1f\"\\\\]{1,3}$"})"));
  EXPECT_EQ(out["const"]["maxLength"], 5);
}

TEST(SchemaCheckTest, EveryOtherKeywordIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "array", "items": {}, "uniqueItems": true})", "uniqueItems"},
      {R"({"type": "object", "properties": {"a": {"type": "array", "contains": {}}}})", "properties.a.contains"},
      {R"({"not": {}})", "not"},
      {R"({"if": {}, "then": {}})", "if"},
      {R"({"type": "object", "properties": {"a": {}}, "dependentRequired": {"a": ["b"]}})", "dependentRequired"},
      {R"({"type": "object", "required": ["a"]})", "required"},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]})", "required"},
      {R"({"type": "number", "multipleOf": 0.5})", "multipleOf"},
      {R"({"type": "string", "minimum": 5})", "minimum"},
      {R"({"type": "string", "pattern": "a", "maxLength": 5})", "maxLength"},
      {R"({"type": "string", "format": "phone"})", "format"},
      {R"({"type": "string", "pattern": "a\"b"})", "pattern"},
      {R"({"type": "string", "pattern": "a\\\\"})", "pattern"},
      {R"({"type": "string", "pattern": "\\n"})", "pattern"},
      {R"({"type": "array", "items": {"type": "string", "pattern": "\\x22"}})", "items.pattern"},
      {R"({"type": "string", "maxLength": 129})", "maxLength"},
      {R"({"type": "array", "items": {}, "minItems": 129})", "minItems"},
      {R"({"type": "string", "pattern": "a{5,129}"})", "pattern"},
      {R"({"type": "strange"})", "type"},
      {R"({"enum": ["a", 5], "type": "string"})", "enum"},
      {R"({"$ref": "http://example.com/schema"})", "$ref"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {}}, "type": "string"})", "type"},
      {R"({"anyOf": [{}], "properties": {}})", "properties"},
      {R"({"allOf": [{"type": "object"}, {"type": "object"}]})", "allOf"},
      {R"({"anyOf": []})", "anyOf"},
      {R"({"$defs": {"a": {"type": "array", "items": {"not": {}}}}})", "$defs.a.items.not"},
      {R"({"type": "object", "minProperties": 2})", "minProperties"},
      {R"({"type": "object", "properties": {"a": false}})", "properties.a"},
      {R"({"vocabulary": 1})", "vocabulary"},
  };
  for (const auto& [schema, keyword] : cases) {
    const std::string why = WhyNotKept(Parse(schema));
    EXPECT_TRUE(why.starts_with(std::string(keyword) + " ")) << schema << ": " << why;
  }
}

}  // namespace
}  // namespace quire
