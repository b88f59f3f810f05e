#include "coordinator/api/requests/structured_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/schema/rule_text.h"
#include "comm/schema/schema_work.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/structural_tag_check.h"
#include "coordinator/api/requests/told_once.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr std::pair<const char*, const char*> kGuided[] = {
    {"guided_json", "json"}, {"guided_regex", "regex"}, {"guided_choice", "choice"}, {"guided_grammar", "grammar"}};
constexpr size_t kMaxChoices = 1024;
constexpr size_t kMaxSchemaNodes = 10'000;

[[noreturn]] void Refuse(const std::string& field, const std::string& reason) {
  throw ApiError(400, fmt::format("{} {}", field, reason), field);
}

size_t CountNodes(const OrderedJson& json) {
  size_t count = 1;
  if (!json.is_structured()) return count;
  for (const OrderedJson& item : json) count += CountNodes(item);
  return count;
}

std::string Text(const OrderedJson& value, const std::string& field) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    Refuse(field, "must be a string that is not empty");
  if (value.get_ref<const std::string&>().size() > kMaxGrammarBytes)
    Refuse(field, fmt::format("takes at most {} bytes", kMaxGrammarBytes));
  return value.get<std::string>();
}

GrammarSource ChoiceGrammar(const OrderedJson& choices, const std::string& field) {
  if (!choices.is_array() || choices.empty() || choices.size() > kMaxChoices)
    Refuse(field, fmt::format("must be a list of 1 to {} strings", kMaxChoices));
  std::string rule;
  for (const OrderedJson& choice : choices) {
    rule += fmt::format("{}{}", rule.empty() ? "root ::= " : " | ", LiteralOf(Text(choice, field)));
    if (rule.size() > kMaxGrammarBytes)
      Refuse(field, fmt::format("makes a grammar of more than {} bytes; give fewer or shorter choices",
                                kMaxGrammarBytes));
  }
  return {GrammarSource::kEbnf, rule};
}

/// Parses the JSON text in a string of the body. Throws ApiError for invalid JSON and for JSON beyond the bounds of
/// bodies.
OrderedJson ParseText(const OrderedJson& value, const std::string& field) {
  const std::string text = Text(value, field);
  try {
    (void)ParseJson(text, field, kClientJson);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), field);
  }
  return ParseExactJson(text);
}

/// Reads guided_json or structured_outputs.json: a schema, or a schema's text.
GrammarSource SchemaOrText(const OrderedJson& value, const std::string& field) {
  return SchemaGrammar(value.is_string() ? ParseText(value, field) : value, field, SchemaPromise::kExact);
}

GrammarSource StructuralTag(const OrderedJson& given, const std::string& field) {
  const OrderedJson tag = given.is_string() ? ParseText(given, field) : given;
  if (!tag.is_object()) Refuse(field, "must be an object or the text of one");
  if (CountNodes(tag) > kMaxSchemaNodes)
    Refuse(field, fmt::format("has more than {} values; ask for a simpler form", kMaxSchemaNodes));
  GrammarSource grammar{GrammarSource::kStructuralTag, DumpExactJson(tag)};
  if (grammar.text.size() > kMaxGrammarBytes) Refuse(field, fmt::format("takes at most {} bytes", kMaxGrammarBytes));
  const std::string problem = WhyTagNotKept(tag);
  if (!problem.empty()) Refuse(field, "cannot be kept to exactly: " + problem);
  return grammar;
}

std::optional<GrammarSource> OfKind(const std::string& kind, const OrderedJson& value, const std::string& field) {
  if (kind == "json") return SchemaOrText(value, field);
  if (kind == "regex") return GrammarSource{GrammarSource::kRegex, Text(value, field)};
  if (kind == "choice") return ChoiceGrammar(value, field);
  if (kind == "grammar") return GrammarSource{GrammarSource::kEbnf, Text(value, field)};
  if (kind == "structural_tag") return StructuralTag(value, field);
  if (kind == "json_object") {
    if (!value.is_boolean()) Refuse(field, "must be true or false");
    return value.get<bool>() ? GrammarSource{GrammarSource::kJson, ""} : GrammarSource();
  }
  return std::nullopt;
}

GrammarSource OfStructuredOutputs(const OrderedJson& options) {
  constexpr const char* kField = "structured_outputs";
  if (!options.is_object()) Refuse(kField, "must be an object");
  GrammarSource found;
  for (const auto& [kind, value] : options.items()) {
    if (value.is_null()) continue;
    const std::string field = fmt::format("{}.{}", kField, kind.substr(0, 50));
    const auto grammar = OfKind(kind, value, field);
    if (!grammar) Refuse(field, "is not supported; json, json_object, regex, choice, grammar and structural_tag are");
    if (found && *grammar) Refuse(kField, "asks for more than one form; give one");
    if (*grammar) found = *grammar;
  }
  return found;
}

GrammarSource OfResponseFormat(const OrderedJson& format) {
  constexpr const char* kField = "response_format";
  if (!format.is_object() || !format.contains("type") || !format["type"].is_string())
    Refuse(kField, "must be an object with a type");
  const std::string type = format["type"].get<std::string>();
  if (type == "text") return {};
  if (type == "json_object") return {GrammarSource::kJsonSchema, R"({"type":"object"})"};
  if (type == "structural_tag") return StructuralTag(format, kField);
  if (type != "json_schema") Refuse(kField, "must have the type text, json_object, json_schema or structural_tag");
  const auto described = format.find("json_schema");
  if (described == format.end() || !described->is_object()) Refuse("response_format.json_schema", "must be an object");
  for (const auto& [name, ignored] : described->items()) {
    if (name != "name" && name != "description" && name != "strict" && name != "schema")
      Refuse("response_format.json_schema." + name.substr(0, 50), "is not known; leave it out");
  }
  const auto schema = described->find("schema");
  if (schema == described->end()) Refuse("response_format.json_schema.schema", "is missing");
  const bool strict = described->value("strict", OrderedJson()) == true;
  return SchemaGrammar(*schema, "response_format.json_schema.schema",
                       strict ? SchemaPromise::kExact : SchemaPromise::kAsFarAs);
}

}  // namespace

GrammarSource SchemaGrammar(const OrderedJson& schema, const std::string& field, SchemaPromise promise) {
  if (CountNodes(schema) > kMaxSchemaNodes)
    Refuse(field, fmt::format("has more than {} values; ask for a simpler form", kMaxSchemaNodes));
  GrammarSource grammar{GrammarSource::kJsonSchema, DumpExactJson(schema)};
  if (grammar.text.size() > kMaxGrammarBytes) Refuse(field, fmt::format("takes at most {} bytes", kMaxGrammarBytes));
  const SchemaCheck check = CheckSchema(schema, promise);
  if (!check.problem.empty()) Refuse(field, "cannot be kept to exactly: " + check.problem);
  for (const SchemaRemarks::Remark& remark : check.remarks) {
    const std::string keyword = remark.place.substr(remark.place.rfind('.') + 1).substr(0, 100);
    TellOnce(fmt::format("schema {} {}", keyword, remark.why),
             fmt::format("of schemas is passed over: {} {} (said once for each keyword; here {} in {})",
                         DumpJson(keyword), remark.why, DumpJson(remark.place.substr(0, 200)), field));
  }
  return grammar;
}

bool MayAskForForm(std::string_view body) {
  const auto spells = [body](std::string_view text) { return body.find(text) != std::string_view::npos; };
  return spells("\\") || spells("response_format") || spells("structured_outputs") ||
         std::ranges::any_of(kGuided, [&](const auto& field) { return spells(field.first); });
}

StructuredOutput ReadStructuredOutput(const OrderedJson& body) {
  const SchemaWork work(kSchemaWork);  // shared by all schemas of the body
  StructuredOutput found;
  const auto take = [&](GrammarSource grammar, const char* field) {
    if (!grammar) return;
    if (found.grammar) Refuse(field, fmt::format("cannot be combined with {}; leave out one", found.field));
    found = {std::move(grammar), field};
  };
  const auto given = [&](const char* name) { return body.contains(name) && !body[name].is_null(); };
  if (given("response_format")) take(OfResponseFormat(body["response_format"]), "response_format");
  if (given("structured_outputs")) take(OfStructuredOutputs(body["structured_outputs"]), "structured_outputs");
  for (const auto& [name, kind] : kGuided) {
    if (given(name)) take(*OfKind(kind, body[name], name), name);
  }
  return found;
}

}  // namespace quire
