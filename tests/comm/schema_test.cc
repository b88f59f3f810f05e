// Tests, byte by byte, which texts the grammars of JSON schemas accept and refuse. Also tests the budget of work for
// schemas.
#include <gtest/gtest.h>

#include <tuple>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "comm/grammar/grammar_compiler.h"
#include "comm/schema/number_texts.h"
#include "comm/schema/schema_reader.h"
#include "comm/schema/schema_rules.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"
#include "comm/schema/text_pattern.h"

namespace quire {
namespace {

constexpr TokenId kSchemaStop = 0;

GrammarCompiler& Compiler() {
  static const Vocabulary vocabulary = [] {
    Vocabulary bytes{{""}, {kSchemaStop}};
    for (int byte = 0; byte < 256; ++byte) bytes.bytes.emplace_back(1, static_cast<char>(byte));
    return bytes;
  }();
  static GrammarCompiler compiler(vocabulary, 257);
  return compiler;
}

/// Returns whether the grammar accepts the whole text.
bool Takes(const GrammarSource& source, const std::string& text) {
  GrammarMatcher matcher(Compiler().Compile(source));
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(1 + static_cast<unsigned char>(c));
  std::vector<uint32_t> allowed(matcher.num_words());
  return matcher.Follow(tokens) && matcher.Allow(allowed) && (allowed[0] & 1) != 0;
}
bool SchemaTakes(const std::string& schema, const std::string& text) {
  return Takes({GrammarSource::kJsonSchema, schema}, text);
}
bool TagTakes(const std::string& style, const std::string& schema, const std::string& text) {
  const OrderedJson tag = {
      {"type", "structural_tag"},
      {"format", {{"type", "json_schema"}, {"json_schema", OrderedJson::parse(schema)}, {"style", style}}}};
  return Takes({GrammarSource::kStructuralTag, tag.dump()}, text);
}

struct Case {
  const char* schema;
  std::vector<std::string> taken, refused;
};

void Check(const std::vector<Case>& cases) {
  for (const auto& [schema, taken, refused] : cases) {
    for (const std::string& text : taken) EXPECT_TRUE(SchemaTakes(schema, text)) << schema << "\n" << text;
    for (const std::string& text : refused) EXPECT_FALSE(SchemaTakes(schema, text)) << schema << "\n" << text;
  }
}

TEST(JsonGrammar, Whitespace_IsBounded_BetweenTokensOfJson) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"array"}},"required":["a"],)"
                             R"("additionalProperties":false})";
  const std::string twenty(20, ' '), more(21, ' ');
  for (const std::string& blanks : {std::string(), std::string(" "), std::string("\r\n\t"), twenty}) {
    EXPECT_TRUE(SchemaTakes(schema, "{" + blanks + "\"a\"" + blanks + ":" + blanks + "[" + blanks + "1" + blanks + "," +
                                        blanks + "{" + blanks + "}" + blanks + "]" + blanks + "}"));
  }
  for (const std::string text : {"{~\"a\":[]}", "{\"a\"~:[]}", "{\"a\":~[]}", "{\"a\":[~]}", "{\"a\":[]~}",
                                 "{\"a\":[1~,2]}", "{\"a\":[1,~2]}", "{\"a\":[{~}]}", "{\"a\":[{\"b\"~:1}]}"}) {
    std::string spaced = text;
    spaced.replace(spaced.find('~'), 1, more);
    EXPECT_FALSE(SchemaTakes(schema, spaced)) << text;
    EXPECT_FALSE(Takes({GrammarSource::kJson, ""}, spaced)) << text;
    spaced.erase(spaced.find(' '), 1);
    EXPECT_TRUE(SchemaTakes(schema, spaced)) << text;
    EXPECT_TRUE(Takes({GrammarSource::kJson, ""}, spaced)) << text;
  }
  EXPECT_FALSE(SchemaTakes(schema, "{" + std::string(2000, ' ') + "\"a\":1}"));
}

TEST(JsonGrammar, Matcher_StaysWithinItsWorkLimit_WithWhitespaceAroundPatternProperties) {
  const std::string schema = R"({"type":"object","patternProperties":{"^x-":{"type":"integer"}},)"
                             R"("additionalProperties":false})";
  std::string text = "{";
  for (int i = 0; i < 200; ++i)
    text += (i > 0 ? "," : "") + std::string(20, '\n') + "\"x-" + std::to_string(i) + "\" : 1 ";
  EXPECT_TRUE(SchemaTakes(schema, text + "}"));
}

TEST(JsonGrammar, Escapes_CountAsOneCharacter_InStringsWithLengths) {
  Check({{R"({"type":"string","maxLength":20})",
          {R"("say \"hi\"")", R"("back\\slash")", R"("a\nb\t\/\u00e9\u0001")", R"("")", "\"é😀\""},
          {"\"a\nb\"", R"("\x")", R"("\ud83d")", R"("012345678901234567890")"}},
         {R"({"type":"string","minLength":2,"maxLength":2})",
          {R"("\n\"")", R"("\ud83d\ude00a")", "\"é😀\"", R"("\u00e9\\")"},
          {R"("\n")", R"("\ud83d\ude00")", R"("\n\n\n")"}},
         {R"({"type":"string","minLength":3})", {R"("\"\"\"")", R"("abcd\\")"}, {R"("\"\"")", R"("")"}},
         {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")", R"("\n")"}}});
}

TEST(JsonGrammar, Patterns_MatchAnywhere_InStringsAndPropertyNames) {
  Check({{R"({"type":"string","pattern":"\\S"})", {R"("hello world")", R"(" \n x")", R"("\"")"}, {R"("")", R"(" \n")"}},
         {R"({"type":"string","pattern":"^\\d{3}"})", {R"("123-45")", R"("123")"}, {R"("12")", R"("a123")"}},
         {R"({"type":"string","pattern":"\\d{3}$"})", {R"("a123")", R"("\\123")"}, {R"("123a")"}},
         {R"({"type":"string","pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xbx")"}},
         {R"({"type":"string","pattern":"^\"\\\\n$"})", {R"("\"\\n")"}, {R"("n")"}},
         {R"({"type":"string","pattern":"^\\n\\t\\x01$"})", {R"("\n\t\u0001")"}, {R"("nt")"}},
         {R"({"type":"string","pattern":"^[^a]$"})",
          {R"("b")", R"("\"")", R"("\\")", R"("\n")", R"("\u001f")"},
          {R"("a")"}},
         {R"({"type":"string","pattern":"^.$"})", {R"("b")", R"("\t")", "\"é\""}, {R"("\n")", R"("\r")", "\"\u2028\""}},
         {R"({"type":"string","pattern":"^[a-z]+$","maxLength":3})", {R"("abc")"}, {R"("abcd")", R"("")", R"("a1")"}},
         {R"({"patternProperties":{"x":{"type":"integer"}},"additionalProperties":false})",
          {R"({"axb":1})", R"({"x":1,"xx":2})", "{}"},
          {R"({"a":1})", R"({"x":"1"})"}},
         {R"({"patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":5}},)"
          R"("additionalProperties":false})",
          {R"({"ab":7,"a":1,"b":5.5})"},
          {R"({"ab":1})", R"({"ab":7.5})", R"({"c":1})"}},
         {R"({"properties":{"a":{"type":"null"}},"patternProperties":{"^x":{"type":"integer"}},)"
          R"("required":["a"]})",
          {R"({"x":1,"a":null,"z":"?"})", R"({"a":null})"},
          {R"({"x":"1","a":null})", R"({"x":1})"}}});
}

TEST(JsonGrammar, Numbers_KeepTheirRange_WithAnyDecimalsAndExponents) {
  Check({{R"({"type":"number","minimum":0,"maximum":1})",
          {"0.123456789", "1", "1.000", "0", "0.5e-3", "1e-7", "5E-01", "10e-1", "0.0", "-0.0", "1e0"},
          {"1.0000001", "-0.1", "1e1", "11e-1", "00.5", ".5", "1."}},
         {R"({"type":"number","exclusiveMinimum":0})", {"1e20", "0.0000001", "123456.5"}, {"0", "0.0", "-1"}},
         {R"({"type":"number","minimum":-273.15,"maximum":1e6})",
          {"-273.15", "-2.7315e2", "999999.9999999", "1e6"},
          {"-273.150001", "1000001", "1.1e6"}},
         {R"({"type":"number","minimum":1,"exclusiveMinimum":true})", {"1.5"}, {"1"}},
         {R"({"type":"integer","minimum":-12,"maximum":130})", {"-12", "130", "0"}, {"-13", "131", "1.5", "1e1", "-0"}},
         {R"({"type":"integer","minimum":18446744073709551615})",
          {"18446744073709551615", "99999999999999999999"},
          {"18446744073709551614"}},
         {R"({"type":"integer","multipleOf":7,"minimum":0,"maximum":50})", {"0", "49"}, {"50", "56", "1"}},
         {R"({"type":"number","multipleOf":5})", {"-10", "5"}, {"5.5", "7"}}});
}

TEST(JsonGrammar, LongIntegers_StayExact_InEnumConstAndBounds) {
  Check({{R"({"enum":[18446744073709551615]})",
          {"18446744073709551615"},
          {"1.8446744073709552e+19", "18446744073709551616"}},
         {R"({"enum":[123456789012345678901234567890,-18446744073709551616]})",
          {"123456789012345678901234567890", "-18446744073709551616"},
          {"123456789012345680000000000000", "1.2345678901234568e+29"}},
         {R"({"type":"integer","maximum":18446744073709551616})", {"18446744073709551616"}, {"18446744073709551617"}},
         {R"({"const":-9223372036854775808})", {"-9223372036854775808"}, {"-9223372036854775807"}},
         {R"({"const":{"b":1,"a":[true,null]}})",
          {R"({"b": 1, "a": [true, null]})", R"({"b":1,"a":[true,null]})"},
          {R"({"a":[true,null],"b":1})"}}});
}

TEST(JsonGrammar, Members_MayHaveAnyOrder_InObjectsThatAllowOtherMembers) {
  Check({{R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})",
          {R"({"b":2,"a":1})", R"({"a":1,"b":2})", R"({"z":"","b":2,"y":[],"a":1})", "{}", R"({"ab":"x"})"},
          {R"({"b":"2"})", R"({"a":1,"a":2})"}},
         {R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]})",
          {R"({"b":2,"a":1})", R"({"z":0,"a":1})"},
          {R"({"b":2})", "{}"}},
         {R"({"properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{}},"required":["a","g"]})",
          {R"({"g":1,"c":1,"a":1,"x":1})", R"({"a":1,"g":1})"},
          {R"({"g":1})"}},
         {R"({"properties":{"a":{},"b":{}},"additionalProperties":false})",
          {R"({"a":1,"b":1})", R"({"b":1})"},
          {R"({"b":1,"a":1})"}},
         {R"({"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"minProperties":2,)"
          R"("maxProperties":2})",
          {R"({"a":1,"c":1})", R"({"b":1,"c":1})"},
          {R"({"a":1})", R"({"a":1,"b":1,"c":1})", "{}"}},
         {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3},)"
          R"("additionalProperties":{"type":"null"}})",
          {R"({"abc":null})"},
          {R"({"abcd":null})", R"({"A":null})"}},
         {R"({"type":"object","propertyNames":{"enum":["a","b"]}})", {R"({"a":1})"}, {R"({"c":1})"}},
         {R"({"type":"object","required":["n"]})", {R"({"x":1,"n":2})"}, {R"({"x":1})"}}});
}

TEST(JsonGrammar, Grammar_FollowsReferencesAlternativesAndCombinations) {
  Check({{R"({"$defs":{"A":{"type":"object","properties":{"kind":{"const":"a"},)"
          R"("n":{"type":"integer"}},"required":["kind","n"],"additionalProperties":false},)"
          R"("B":{"type":"object","properties":{"kind":{"const":"b"},"m":{"type":"integer"}},)"
          R"("required":["kind","m"],"additionalProperties":false}},"oneOf":[{"$ref":"#/$defs/A"},)"
          R"({"$ref":"#/$defs/B"}]})",
          {R"({"kind":"a","n":1})", R"({"kind":"b","m":1})"},
          {R"({"kind":"a","m":1})"}},
         {R"({"$defs":{"a/b":{"type":"null"},"c~d":{"const":5}},"anyOf":[{"$ref":"#/$defs/a~1b"},)"
          R"({"$ref":"#/$defs/c~0d"},{"$ref":"#%2F$defs"}]})",
          {},
          {}},
         {R"({"$ref":"#/$defs/T","$defs":{"T":{"type":"object",)"
          R"("properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"],)"
          R"("additionalProperties":false}}})",
          {R"({"next":{"next":null}})"},
          {R"({"next":{}})"}},
         {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
          R"({"properties":{"b":{"type":"null"}},"required":["b"]}]})",
          {R"({"a":1,"b":null})", R"({"b":null,"a":1})"},
          {R"({"a":1})", R"({"a":1,"b":1})"}},
         {R"({"allOf":[{"type":"number","minimum":3},{"type":"integer","maximum":5}]})", {"3", "5"}, {"2", "6", "3.5"}},
         {R"({"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},)"
          R"({"required":["b"]}],"additionalProperties":false})",
          {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
          {"{}"}},
         {R"({"$ref":"#/$defs/S","description":"d","$defs":{"S":{"type":"string","enum":["x","y"]}}})",
          {R"("x")"},
          {R"("z")"}},
         {R"({"$ref":"#/$defs/S","maxLength":2,"$defs":{"S":{"type":"string","pattern":"^a"}}})",
          {R"("ab")"},
          {R"("abc")", R"("b")"}},
         {R"({"$ref":"#name","$defs":{"S":{"$anchor":"name","type":"null"}}})", {"null"}, {"1"}},
         {R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"integer"},)"
          R"("minItems":1})",
          {"[null]", "[null, 1, 2]"},
          {"[]", "[1]", "[null, null]"}},
         {R"({"enum":["a",1,null],"type":["string","null"]})", {R"("a")", "null"}, {"1"}}});
}

TEST(JsonGrammar, Grammar_EnforcesEverySupportedStringFormat) {
  const auto text = [](const std::string& words) { return '"' + words + '"'; };
  const std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>> formats = {
      {"date",
       {"2024-02-28", "2024-02-29", "2000-02-29", "1996-02-29", "2024-12-31"},
       {"2023-02-29", "1900-02-29", "2024-02-30", "2024-13-01", "2024-04-31", "x"}},
      {"time", {"23:59:59Z", "10:00:00.5+02:00"}, {"25:00:00Z", "10:00:00"}},
      {"date-time",
       {"2024-01-31T10:00:00Z", "2024-02-29T00:00:00.5+02:00"},
       {"2024-01-31", "2024-01-31 10:00:00Z", "2023-02-29T00:00:00Z"}},
      {"duration", {"P1D", "PT5M", "P2W"}, {"P", "1D"}},
      {"email", {"a.b@c.de", "o'brien@c.de", "a/b=c!@c.de"}, {"a", "@b.c", "a@b", "a..b@c.de"}},
      {"hostname", {"a.b-c"}, {"-a", "a..b"}},
      {"ipv4", {"255.0.10.1"}, {"256.1.1.1", "1.2.3"}},
      {"ipv6",
       {"::", "::1", "1::", "2001:db8::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4::5", "1:2:3:4:5:6::8",
        "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::"},
       {"g", "1:2:3", "12345::", "::1::", "", "1:2:3:4:5:6:7:8::", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7", "1:"}},
      {"uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567", ""}},
      {"uri",
       {"https://a.b/c?d=e#f", "mailto:a@b.c", "http://[::1]:80/", "urn:a%20b", "https://u:p@a.b/"},
       {"a b", "/a", "urn:a%2", "http://[x]/"}},
  };
  for (const auto& [format, taken, refused] : formats) {
    const std::string schema = R"({"type":"string","format":")" + format + "\"}";
    for (const std::string& words : taken) EXPECT_TRUE(SchemaTakes(schema, text(words))) << format << " " << words;
    for (const std::string& words : refused) EXPECT_FALSE(SchemaTakes(schema, text(words))) << format << " " << words;
  }
}

TEST(JsonGrammar, UnsupportedKeywords_AreIgnored) {
  Check({{R"({"type":"integer","format":"uint32","minimum":0,"x-order":1})", {"7"}, {"-1", "1.5"}},
         {R"({"type":"string","format":"path","contentEncoding":"base64"})", {R"("/a")"}, {"1"}},
         {R"({"type":"array","items":{"type":"integer"},"uniqueItems":true})", {"[1, 1]"}, {"[\"\"]"}},
         {R"({"type":"string","maxLength":4000,"minLength":1})", {R"("abc")"}, {R"("")"}},
         {R"({"type":"string","format":"uuid","pattern":"^[0-9a-f]{2}$"})", {R"("0a")"}, {R"("0a0")"}},
         {R"({"type":"string","format":"uri","minLength":1,"maxLength":100})", {R"("a")"}, {R"("")"}},
         {R"({"type":"string","format":"date","maxLength":10})",
          {R"("2024-02-28")"},
          {R"("2024-02-30")", R"("2024-2-8")"}}});
}

/// Programs in Go, C# and other languages write null for keywords that they leave out.
TEST(JsonGrammar, KeywordsWithNull_CountAsLeftOut) {
  Check({{R"({"type":"object","properties":{"a":{"type":"integer","minimum":null,"enum":null}},"required":null,)"
          R"("additionalProperties":null,"patternProperties":null,"minProperties":null,"$defs":null})",
          {R"({"a":1})", R"({})", R"({"b":null})"},
          {R"({"a":"x"})", "1"}},
         {R"({"type":"array","items":null,"prefixItems":null,"minItems":null,"uniqueItems":null,"contains":null})",
          {"[]", "[1]"},
          {"{}"}},
         {R"({"type":"string","format":null,"pattern":null,"maxLength":null,"not":null,"$ref":null,"anyOf":null,)"
          R"("oneOf":null,"allOf":null,"if":null})",
          {R"("x")"},
          {"1"}},
         {R"({"type":null,"properties":null,"minimum":3})", {"3"}, {"2", "{}"}},
         {R"({"const":null})", {"null"}, {"1"}}});
  SchemaRemarks remarks;
  const OrderedJson schema = OrderedJson::parse(R"({"type":"object","required":null,"items":null,"uniqueItems":null,)"
                                                R"("not":null,"anyOf":null,"properties":null,"$ref":null})");
  SchemaReader(schema, &remarks).Look(schema, "");
  EXPECT_TRUE(remarks.wrong.empty() && remarks.unkept.empty() && remarks.unknown.empty());
}

TEST(RegexGrammar, Dot_MatchesNoLineEnd) {
  const auto takes = [](const std::string& pattern, const std::string& text) {
    const OrderedJson tag = {{"type", "structural_tag"}, {"format", {{"type", "regex"}, {"pattern", pattern}}}};
    const bool alone = Takes({GrammarSource::kRegex, pattern}, text);
    EXPECT_EQ(Takes({GrammarSource::kStructuralTag, tag.dump()}, text), alone) << pattern;
    return alone;
  };
  EXPECT_FALSE(takes("a.b", "a\nb"));
  EXPECT_FALSE(takes("a.b", "a\rb"));
  EXPECT_FALSE(takes(".*", "a\n"));
  EXPECT_TRUE(takes("a.b", "a\tb"));
  EXPECT_TRUE(takes("a.b", "aéb"));
  EXPECT_TRUE(takes("[.]\\.", ".."));
  EXPECT_FALSE(takes("[.]\\.", "x."));
  EXPECT_TRUE(takes("(.|\\n)*", "a\nb"));
}

TEST(TagGrammar, ValuesOfTaggedArguments_FollowTheirSchemas_InXmlStyles) {
  const std::string schema = R"({"type":"object","properties":{"code":{"$ref":"#/$defs/Code"},)"
                             R"("n":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["code"],)"
                             R"("additionalProperties":false,"$defs":{"Code":{"type":"string","enum":["1","2"]}}})";
  for (const char* text :
       {"<parameter=code>\n1\n</parameter>", "<parameter=code>2</parameter>\n<parameter=n>\n5\n</parameter>",
        "<parameter=code>\n1\n</parameter>\n<parameter=n>\nnull\n</parameter>"})
    EXPECT_TRUE(TagTakes("qwen_xml", schema, text)) << text;
  for (const char* text :
       {"", "<parameter=code>\n3\n</parameter>", "<parameter=code>\n\"1\"\n</parameter>",
        "<parameter=n>\n5\n</parameter>", "<parameter=code>\n1\n</parameter>\n<parameter=n>\ntrue\n</parameter>"})
    EXPECT_FALSE(TagTakes("qwen_xml", schema, text)) << text;
  EXPECT_TRUE(
      TagTakes("glm_xml", schema,
               "<arg_key>code</arg_key>\n<arg_value>1</arg_value>\n<arg_key>n</arg_key>\n<arg_value>-3</arg_value>"));
  EXPECT_FALSE(TagTakes("glm_xml", schema, "<arg_key>code</arg_key>\n<arg_value>x</arg_value>"));
  const std::string open = R"({"type":"object","properties":{"t":{"type":["string","null"]},"o":{"type":"object"}}})";
  EXPECT_TRUE(TagTakes("qwen_xml", open,
                       "<parameter=t>\n\n {\"a\": </param\n</parameter>\n<parameter=zz>\nanything\n</parameter>"));
  EXPECT_TRUE(TagTakes("qwen_xml", open, "<parameter=o>\n{\"a\": \"\\u003c/parameter>\"}\n</parameter>"));
  EXPECT_FALSE(TagTakes("qwen_xml", open, "<parameter=o>\n{\"a\": \"</parameter>\"}\n</parameter>"))
      << "which would end the value";
  EXPECT_FALSE(TagTakes("qwen_xml", open, "<parameter=o>\n5\n</parameter>"));
  const std::string bounded = R"({"properties":{"s":{"type":"string","pattern":"^a","maxLength":4}},"required":["s"],)"
                              R"("additionalProperties":false})";
  EXPECT_TRUE(TagTakes("qwen_xml", bounded, "<parameter=s>\na \"b\n</parameter>"));
  EXPECT_FALSE(TagTakes("qwen_xml", bounded, "<parameter=s>\nab \n</parameter>"))
      << "blanks at its ends are not the value's";
  EXPECT_TRUE(TagTakes("qwen_xml", R"({"type":"object","additionalProperties":false})", ""));
}

TEST(NumberTexts, NumberTexts_AcceptExactlyTheNumbersOfARange) {
  for (const char* bound : {"0", "1", "-1", "0.5", "-0.5", "100", "0.001", "255", "-12.75", "1e-07", "1e+20", "7.05"}) {
    for (const bool upper : {false, true}) {
      for (const bool excluded : {false, true}) {
        const TextAutomaton texts = NumberTexts({{bound, upper, excluded}});
        for (const char* mantissa :
             {"0",         "1",    "2",     "9",    "10",    "99",    "100",    "101",    "255",  "256",
              "12",        "13",   "0.5",   "0.49", "0.51",  "0.001", "0.0009", "0.0011", "7.05", "7.0500",
              "7.0500001", "7.04", "12.75", "12.7", "12.76", "0.0",   "100.00", "99.999", "0.1"}) {
          for (const char* exponent : {"", "e0", "e1", "E-1", "e+2", "e-07", "e20", "e19", "e-3"}) {
            for (const char* sign : {"", "-"}) {
              const std::string text = std::string(sign) + mantissa + exponent;
              const double value = std::stod(text), limit = std::stod(bound);
              const bool within = value == limit ? !excluded : upper ? value < limit : value > limit;
              if (texts.Accepts(text)) {
                EXPECT_TRUE(within) << bound << upper << excluded << " " << text;
              } else if (*exponent == '\0') {
                EXPECT_FALSE(within) << bound << upper << excluded << " " << text;
              }
            }
          }
        }
      }
    }
  }
}

TEST(TextPattern, UnsupportedPatterns_AreRefusedByName) {
  for (const auto& [pattern, why] :
       std::initializer_list<std::pair<const char*, const char*>>{{"(?=a)", "looks ahead"},
                                                                  {"(?<!a)b", "looks behind"},
                                                                  {"\\bfoo", "border of a word"},
                                                                  {"(a", "without its )"},
                                                                  {"a)", "without its ("},
                                                                  {"[a", "too early"},
                                                                  {"\\p{L}", "property of Unicode"},
                                                                  {"a**", "repeats a repetition"},
                                                                  {"(a)\\1", "escape"},
                                                                  {"a{5,129}", "more than 128"},
                                                                  {"[b-a]", "before it begins"},
                                                                  {"(?i)a", "flags"}}) {
    try {
      TextsWith(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << pattern << ": " << error.what();
    }
  }
}

TEST(SchemaWork, Budget_StopsSchemas_ThatUnfoldWithoutEnd) {
  std::string schema = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 40; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    schema += "\"d" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
  }
  schema += R"("d40":{"type":"object"}}})";
  EXPECT_THROW(RulesOf(OrderedJson::parse(schema), ValueStyle::kJson), Error);
  EXPECT_THROW(
      RulesOf(OrderedJson::parse(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})"), ValueStyle::kJson),
      Error);
  const SchemaWork work(kSchemaWork);
  EXPECT_THROW(TextsWith("(.*a.{20}){20}(b|c.{30}){9}.*x.{90}"), Error);
}

/// Returns the units of work that `run` takes; `run` may fail.
template <class Work>
int64_t Units(const Work& run) {
  const SchemaWork work(kSchemaWork);
  try {
    run();
  } catch (const Error&) {  // the units spent before the error count
  }
  return work.spent();
}

TEST(SchemaWork, Budget_CountsPatterns_AlsoWhenTheyAreRefused) {
  EXPECT_GE(Units([] { TextsWith(std::string(20'000, 'a') + "(?=b)"); }), 20'000);
  EXPECT_GE(Units([] { TextsWith("^(?:[a-c]{60}){120}$"); }), 7'200) << "places that are added";
}

TEST(SchemaWork, Budget_CountsComparisonsOfCharacterRanges) {
  std::string one_class = "^[";
  for (int c = 0x1000; c < 0x1400; c += 2) {
    one_class += static_cast<char>(0xe0 | (c >> 12));
    one_class += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    one_class += static_cast<char>(0x80 | (c & 0x3f));
  }
  EXPECT_GE(Units([&] { TextsWith(one_class + "]$"); }), 512 * 512) << "512 ranges, each looked for among 512 edges";
}

TEST(SchemaWork, Budget_CountsTheJoiningOfSchemas) {
  OrderedJson one = OrderedJson::object(), root;
  for (int i = 0; i < 400; ++i) one["properties"]["p" + std::to_string(i)] = {{"enum", {1, 2, 3}}};
  root["$defs"]["big"] = one;
  root["allOf"] = {{{"$ref", "#/$defs/big"}}, {{"$ref", "#/$defs/big"}}};
  EXPECT_GE(Units([&] { SchemaReader(root).Alternatives(root); }), 800 * 800 / 8) << "names among names";
}

TEST(SchemaWork, Budget_CountsTheSearchForAnAnchor) {
  OrderedJson root = {{"$ref", "#end"}, {"$defs", OrderedJson::object()}};
  for (int i = 0; i < 3000; ++i) root["$defs"]["d" + std::to_string(i)] = true;
  root["$defs"]["last"] = {{"$anchor", "end"}};
  EXPECT_GE(Units([&] { SchemaReader(root).Alternatives(root); }), 3000);
}

TEST(SchemaWork, InnerBudget_IsTakenFromTheOuterBudget) {
  const SchemaWork outer(1000);
  for (int i = 0; i < 3; ++i) {
    const SchemaWork inner(300);
    ChargeSchemaWork(300);
    EXPECT_THROW(ChargeSchemaWork(1), Error);
  }
  EXPECT_EQ(outer.spent(), 900);
  const SchemaWork inner(300);
  ChargeSchemaWork(100);
  EXPECT_THROW(ChargeSchemaWork(1), Error);
}

TEST(NumberTexts, NumberTexts_TightenBounds_OfExtremeMagnitude) {
  const auto takes = [](const char* number, bool upper, bool excluded, const char* text) {
    return NumberTexts({{number, upper, excluded}}).Accepts(text);
  };
  for (const char* most : {"1.7976931348623157e308", "1e100"}) {
    EXPECT_TRUE(takes(most, true, false, "-12.5e3")) << most;
    EXPECT_TRUE(takes(most, true, false, "123456789012345678901234567890")) << most;
    EXPECT_FALSE(takes(most, true, false, ("1" + std::string(400, '0')).c_str())) << most;
  }
  EXPECT_FALSE(takes("-1.7976931348623157e308", false, false, ("-1" + std::string(400, '0')).c_str()));
  EXPECT_TRUE(takes("-1.7976931348623157e308", false, false, "-5"));
  EXPECT_TRUE(takes("1e-130", false, false, "0.001"));
  EXPECT_FALSE(takes("1e-130", false, false, "0"));
  EXPECT_FALSE(takes("1e-130", false, false, "-1"));
  EXPECT_TRUE(takes("1e-130", true, true, "0"));
  EXPECT_FALSE(takes("1e-130", true, false, "0.1"));
  EXPECT_TRUE(takes("-1e-130", false, true, "0"));
  EXPECT_FALSE(takes("-1e-130", true, false, "0"));
  EXPECT_TRUE(takes("-1e-130", true, false, "-0.5"));
  EXPECT_LE(Units([] { NumberTexts({{"1.7976931348623157e308", true, false}}); }), 150'000);
  const std::string long_integer = std::string(5000, '9');
  EXPECT_TRUE(IntegerTexts({{long_integer, true, false}}).Accepts("7"));
  EXPECT_TRUE(IntegerTexts({{"-" + long_integer, false, false}}).Accepts("-7"));
}

TEST(NumberTexts, CanBeWritten_IsFalse_ForLowerBoundsAbove1e100_AndUpperBoundsBelowMinus1e100) {
  EXPECT_FALSE(CanBeWritten({"1e200", false, false}));
  EXPECT_FALSE(CanBeWritten({"-1e200", true, false}));
  EXPECT_TRUE(CanBeWritten({"1e200", true, false}));
  EXPECT_TRUE(CanBeWritten({"1e99", false, false}));
  Check({{R"({"type":"number","maximum":1.7976931348623157e308})", {"1.5", "-3"}, {"\"a\""}},
         {R"({"type":"number","minimum":1e200})", {"1.5"}, {"\"a\""}}});
  const OrderedJson schema = ParseExactJson(R"({"type":"integer","maximum":1)" + std::string(300, '0') + "}");
  EXPECT_TRUE(Accepts(SchemaReader(schema), schema, 5));
}

TEST(SchemaValues, Exclude_IsTrue_OnlyWhenNoValueFitsBothSchemas) {
  const auto exclude = [](const char* a, const char* b) {
    const OrderedJson root = OrderedJson::object();
    return Exclude(SchemaReader(root), OrderedJson::parse(a), OrderedJson::parse(b));
  };
  EXPECT_TRUE(exclude(R"({"type":"string"})", R"({"type":"integer"})"));
  EXPECT_FALSE(exclude(R"({"type":"number"})", R"({"type":"integer"})"));
  EXPECT_TRUE(exclude(R"({"type":"integer","maximum":4})", R"({"type":"integer","minimum":5})"));
  EXPECT_TRUE(exclude(R"({"pattern":"^a"})", R"({"pattern":"^b"})"));
  EXPECT_FALSE(exclude(R"({"pattern":"a"})", R"({"pattern":"b"})"));
  EXPECT_TRUE(exclude(R"({"enum":["a"]})", R"({"enum":["b","c"]})"));
  EXPECT_TRUE(exclude(R"({"properties":{"k":{"const":1}},"required":["k"]})", R"({"properties":{"k":{"const":2}}})"));
  EXPECT_FALSE(exclude(R"({"properties":{"k":{"const":1}}})", R"({"properties":{"k":{"const":2}}})"))
      << "neither has to have it";
  EXPECT_TRUE(
      exclude(R"({"type":"object","required":["n"]})", R"({"properties":{"m":{}},"additionalProperties":false})"));
}

TEST(SchemaReader, Remarks_ListUnknownKeywords_AndNoneForConstAndEnum) {
  const OrderedJson schema = ParseExactJson(
      R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": ["x", null]}, "c": {"x-note": 1}}})");
  SchemaRemarks remarks;
  SchemaReader(schema, &remarks).Look(schema, "");
  ASSERT_EQ(remarks.unknown.size(), 1);
  EXPECT_EQ(remarks.unknown[0].place, "properties.c.x-note");
  EXPECT_TRUE(remarks.wrong.empty() && remarks.unkept.empty());
}

}  // namespace
}  // namespace quire
