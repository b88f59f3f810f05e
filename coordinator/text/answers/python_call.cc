#include "coordinator/text/answers/python_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "comm/grammar/grammar_source.h"
#include "comm/schema/schema_reader.h"
#include "comm/schema/schema_work.h"
#include "coordinator/text/answers/tag_formats.h"

namespace quire {

namespace {

constexpr const char* kAnyName = "[A-Za-z_][A-Za-z0-9_]{0,63}";

bool IsArgumentName(const std::string& name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

/// Returns the first $ref that does not lead into the schema's definitions; empty when there is none. The schema of a
/// single argument has a copy of the definitions only, so such a reference leads nowhere.
std::string ForeignReference(const OrderedJson& schema) {
  if (!schema.is_structured()) return "";
  for (const auto& [key, value] : schema.items()) {
    if (schema.is_object() && key == "$ref" && value.is_string()) {
      const auto& to = value.get_ref<const std::string&>();
      if (!to.starts_with("#/$defs/") && !to.starts_with("#/definitions/")) return to;
    }
    if (std::string found = ForeignReference(value); !found.empty()) return found;
  }
  return "";
}

/// The style in which a format writes calls with named arguments: Python's or Gemma's.
struct CallStyle {
  const char *open, *assign, *separator, *close;  // texts around and between arguments
  const char* quote;  // the quotation mark around strings without constraints; null: JSON strings
  bool python;        // true: writes True and False in place of true and false
};

constexpr CallStyle kPython = {"(", "=", ", ", ")", nullptr, true};
constexpr CallStyle kGemma = {"{", ":", ",", "}", "<|\"|>", false};

/// True if the schema accepts every string and nothing else.
bool IsFreeText(const OrderedJson& schema) {
  static constexpr const char* kAsking[] = {"enum",  "const", "pattern", "format", "minLength", "maxLength",
                                            "anyOf", "oneOf", "allOf",   "not",    "if",        "$ref"};
  return schema.contains("type") && schema["type"] == "string" &&
         std::ranges::none_of(kAsking, [&](const char* keyword) { return schema.contains(keyword); });
}

/// Returns the format of an argument's value. `schema` describes the value. It is a part of `whole` and may refer to
/// the definitions in `whole`.
OrderedJson ArgumentValue(const TagBuilder& build, const CallStyle& style, const OrderedJson& schema,
                          const OrderedJson& whole) {
  if (!schema.is_object()) return ValueOf(schema, "json");
  if (style.quote != nullptr && IsFreeText(schema)) {
    const OrderedJson text = TextWithout(build.Spelled({style.quote}));
    return build.Row({{style.quote, text}, {style.quote, nullptr}});
  }
  const auto type = schema.find("type");
  if (style.python && type != schema.end() && *type == "boolean" && !schema.contains("enum") &&
      !schema.contains("const")) {
    return AnyOf({TagFormat("const_string", {{"value", "True"}}), TagFormat("const_string", {{"value", "False"}})});
  }
  OrderedJson alone = schema;
  for (const char* definitions : {"$defs", "definitions"}) {
    if (whole.contains(definitions) && !alone.contains(definitions)) alone[definitions] = whole[definitions];
  }
  return ValueOf(alone, "json");
}

/// Returns the format of arguments with any names.
OrderedJson NamedFreely(const TagBuilder& build, const CallStyle& style, const OrderedJson& value) {
  const OrderedJson one = SequenceOf({RegexOf(kAnyName), build.Row({{style.assign, value}})});
  return OptionalOf(SequenceOf({one, StarOf(build.Row({{style.separator, one}}))}));
}

/// Returns all arguments that the schema names.
PlainSchema::Named Members(const PlainSchema& schema) {
  PlainSchema::Named members = schema.properties;
  for (const std::string& name : schema.required) {
    if (std::ranges::count(members, name, &PlainSchema::Named::value_type::first) == 0)
      members.emplace_back(name, schema.ForName(name));
  }
  return members;
}

/// Returns the format of arguments in the schema's order, separated by commas; optional arguments may be left out.
/// whole: the schema into which references lead.
OrderedJson NamedBySchema(const TagBuilder& build, const CallStyle& style, const PlainSchema& schema,
                          const OrderedJson& whole) {
  struct Argument {
    std::string begin;
    OrderedJson value;
    bool required;
  };
  std::vector<Argument> arguments;
  for (const auto& [name, part] : Members(schema))
    arguments.push_back({name + style.assign, ArgumentValue(build, style, part, whole), schema.Requires(name)});
  // Makes one alternative for each argument that may come first. All arguments before it are optional and left out.
  std::vector<OrderedJson> beginnings;
  for (size_t first = 0; first < arguments.size(); ++first) {
    std::vector<OrderedJson> row = {build.Row({{arguments[first].begin, arguments[first].value}})};
    for (size_t i = first + 1; i < arguments.size(); ++i) {
      OrderedJson next = build.Row({{style.separator + arguments[i].begin, arguments[i].value}});
      row.push_back(arguments[i].required ? std::move(next) : OptionalOf(std::move(next)));
    }
    beginnings.push_back(SequenceOf(std::move(row)));
    if (arguments[first].required) return AnyOf(std::move(beginnings));
  }
  return OptionalOf(AnyOf(std::move(beginnings)));
}

/// Returns the reason why the call's grammar would be too large; empty when the grammar is small enough. Called before
/// the grammar is built.
std::string WhyTooLarge(const PlainSchema& schema, const OrderedJson& whole) {
  size_t definitions = 0, row = 0, bytes = 0;
  for (const char* name : {"$defs", "definitions"}) {
    if (whole.contains(name)) definitions += DumpExactJson(whole[name]).size();
  }
  const PlainSchema::Named members = Members(schema);
  std::vector<size_t> sizes;
  for (const auto& [name, part] : members) {
    sizes.push_back(name.size() + DumpExactJson(part).size() + definitions);
    row += sizes.back();
  }
  // The grammar has an alternative for each argument that may come first: all arguments up to the first required one.
  // Each alternative contains all later arguments.
  for (size_t i = 0; i < members.size(); ++i) {
    bytes += row;
    row -= sizes[i];
    if (bytes > kMaxGrammarBytes)
      return fmt::format("comes to more than {} bytes, as each argument brings its $defs along", kMaxGrammarBytes);
    if (schema.Requires(members[i].first)) break;
  }
  return "";
}

OrderedJson NamedCall(const TagBuilder& build, const CallStyle& style, const std::string& name,
                      const OrderedJson& schema) {
  OrderedJson arguments;
  if (schema.is_null()) {
    arguments = NamedFreely(build, style, ValueOf(true, "json"));
  } else {
    const PlainSchema plain = SchemaReader(schema).Alternatives(schema).front();
    if (!Members(plain).empty()) {
      arguments = NamedBySchema(build, style, plain, schema);
    } else if (plain.others != false) {
      arguments = NamedFreely(build, style, ArgumentValue(build, style, plain.others, schema));
    }
  }
  return build.Row({{name + style.open, arguments}, {style.close, nullptr}});
}

}  // namespace

std::string WhyNoPythonCall(const OrderedJson& schema) {
  std::vector<PlainSchema> alternatives;
  try {
    const SchemaWork work(kSchemaWork);
    alternatives = SchemaReader(schema).Alternatives(schema);
  } catch (const Error& error) {
    return error.what();
  }
  if (alternatives.size() != 1 || alternatives.front().values)
    return "has alternatives, which arguments of Python's cannot be kept to as a whole";
  const PlainSchema& arguments = alternatives.front();
  if (!arguments.by_pattern.empty() || arguments.names != true || arguments.member_count.bounded())
    return "asks something of names or of their number, which arguments of Python's cannot be kept to";
  for (const auto& [name, value] : Members(arguments)) {
    if (!IsArgumentName(name)) return fmt::format("has the property \"{}\", which is no name of an argument", name);
  }
  if (std::string why = WhyTooLarge(arguments, schema); !why.empty()) return why;
  if (const std::string to = ForeignReference(schema); !to.empty())
    return fmt::format("refers to \"{}\"; arguments of Python's can refer to $defs alone", to);
  return "";
}

OrderedJson PythonCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema) {
  return NamedCall(build, kPython, name, schema);
}

OrderedJson GemmaCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema) {
  return NamedCall(build, kGemma, name, schema);
}

}  // namespace quire
