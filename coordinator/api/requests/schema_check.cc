#include "coordinator/api/requests/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

namespace {

using Words = std::set<std::string_view>;

// They say nothing about a value.
const Words kAnnotations = {"title",    "description", "default",  "examples",    "example",
                            "$schema",  "$id",         "$comment", "$anchor",     "deprecated",
                            "readOnly", "writeOnly",   "$defs",    "definitions", "discriminator"};
// A schema has one of these at most: the compiler looks at no other keyword beside it, but for those of kBeside.
constexpr std::array<std::string_view, 6> kAlone = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
const Words kNumber = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
const std::map<std::string_view, Words> kOfType = {
    {"null", {}},
    {"boolean", {}},
    {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
    {"number", kNumber},
    {"string", {"minLength", "maxLength", "pattern", "format"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}},
    {"object",
     {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}},
};
// Forms of texts whose rules in the compiler allow nothing that JSON does not.
const Words kFormats = {"email", "date", "time", "date-time", "duration", "ipv4", "ipv6", "hostname", "uuid", "uri"};

const char* TypeOf(const OrderedJson& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_number_integer() ? "integer" : "number";
}

/// Looks through a schema and all those inside it; keeps the first thing that is wrong.
class SchemaChecker {
 public:
  std::string problem;

  void Check(const OrderedJson& schema, const std::string& where) {
    if (schema.is_boolean()) return Expect(schema.get<bool>(), where, "is false: nothing is allowed there");
    if (!schema.is_object()) return Expect(false, where, "is no schema: it must be an object");
    for (const char* definitions : {"$defs", "definitions"}) CheckEach(schema, definitions, where);
    const auto alone = std::ranges::find_if(kAlone, [&](std::string_view name) { return schema.contains(name); });
    if (alone != kAlone.end()) return CheckAlone(schema, std::string(*alone), where);
    CheckTyped(schema, where);
  }

 private:
  void Expect(bool holds, const std::string& where, const std::string& what) {
    if (!holds && problem.empty()) problem = fmt::format("{} {}", where.empty() ? "the schema" : where, what);
  }
  void Refuse(const std::string& keyword, const std::string& where, const std::string& why) {
    Expect(false, where.empty() ? keyword : where + "." + keyword, why);
  }

  void CheckEach(const OrderedJson& schema, const std::string& keyword, const std::string& where) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return;
    if (!found->is_object()) return Refuse(keyword, where, "must be an object");
    for (const auto& [name, part] : found->items()) Check(part, Path(where, keyword, name));
  }
  void CheckList(const OrderedJson& list, const std::string& keyword, const std::string& where) {
    if (!list.is_array() || list.empty()) return Refuse(keyword, where, "must be a list of at least one schema");
    for (size_t i = 0; i < list.size(); ++i) Check(list[i], Path(where, keyword, std::to_string(i)));
  }
  static std::string Path(const std::string& where, const std::string& keyword, const std::string& name) {
    return fmt::format("{}{}{}.{}", where, where.empty() ? "" : ".", keyword, name.substr(0, 100));
  }

  void CheckAlone(const OrderedJson& schema, const std::string& form, const std::string& where) {
    const OrderedJson& value = schema[form];
    for (const auto& [keyword, ignored] : schema.items()) {
      const bool typed_values = keyword == "type" && (form == "enum" || form == "const");
      if (keyword != form && !typed_values && !kAnnotations.contains(keyword))
        Refuse(keyword, where, fmt::format("beside {} is not supported", form));
    }
    if (form == "$ref") {
      const std::string target = value.is_string() ? value.get<std::string>() : "";
      const bool local = (target == "#" || target.starts_with("#/")) && target.find_first_of("~%") == std::string::npos;
      return Expect(local, where.empty() ? form : where + "." + form,
                    "must point into the schema itself, as #/$defs/NAME");
    }
    if (form == "const") return CheckValues(schema, OrderedJson::array({value}), form, where);
    if (form == "enum") return CheckValues(schema, value, form, where);
    if (form == "allOf" && value.is_array() && value.size() > 1)
      return Refuse(form, where, "of several schemas is not supported");
    CheckList(value, form, where);
  }

  void CheckValues(const OrderedJson& schema, const OrderedJson& values, const std::string& form,
                   const std::string& where) {
    if (!values.is_array() || values.empty()) return Refuse(form, where, "must be a list of at least one value");
    const auto type = schema.find("type");
    if (type == schema.end()) return;
    const OrderedJson types = type->is_array() ? *type : OrderedJson::array({*type});
    for (const OrderedJson& value : values) {
      const std::string has = TypeOf(value);
      const bool fits = std::ranges::any_of(
          types, [&](const OrderedJson& t) { return t == has || (t == "number" && has == "integer"); });
      if (!fits) return Refuse(form, where, "has a value that is not of the type beside it");
    }
  }

  void CheckTyped(const OrderedJson& schema, const std::string& where) {
    Words known, types;
    if (const auto type = schema.find("type"); type != schema.end()) {
      const OrderedJson list = type->is_array() ? *type : OrderedJson::array({*type});
      for (const OrderedJson& one : list) {
        const auto found = one.is_string() ? kOfType.find(one.get_ref<const std::string&>()) : kOfType.end();
        if (found == kOfType.end())
          return Refuse("type", where, "must be null, boolean, integer, number, string, array or object");
        types.insert(found->first);
        known.insert(found->second.begin(), found->second.end());
      }
    } else if (schema.contains("properties") || schema.contains("additionalProperties")) {
      // Values of other types would be allowed, too; the compiler takes it for an object, which those who write it
      // mean.
      known = kOfType.at("object");
    } else if (schema.contains("items") || schema.contains("prefixItems")) {
      known = kOfType.at("array");
    }
    for (const auto& [keyword, ignored] : schema.items()) {
      if (keyword != "type" && !kAnnotations.contains(keyword) && !known.contains(keyword)) {
        const bool of_any =
            std::ranges::any_of(kOfType, [&](const auto& entry) { return entry.second.contains(keyword); });
        Refuse(keyword, where, of_any ? "is not for the type that stands there" : "is not supported");
      }
    }
    CheckString(schema, where);
    CheckArray(schema, where);
    CheckObject(schema, where);
  }

  void CheckCount(const OrderedJson& schema, const std::string& keyword, const std::string& where) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return;
    const bool fits = found->is_number_integer() && *found >= 0 && *found <= kMostRepetitions;
    if (!fits) Refuse(keyword, where, fmt::format("must be an integer from 0 to {}", kMostRepetitions));
  }

  void CheckString(const OrderedJson& schema, const std::string& where) {
    for (const char* keyword : {"minLength", "maxLength"}) {
      CheckCount(schema, keyword, where);
      for (const char* form : {"pattern", "format"}) {
        if (schema.contains(keyword) && schema.contains(form))
          Refuse(keyword, where, fmt::format("beside {} is not supported", form));
      }
    }
    if (schema.contains("pattern") && schema.contains("format"))
      Refuse("format", where, "beside pattern is not supported");
    for (const char* keyword : {"pattern", "format"}) {
      if (schema.contains(keyword) && !schema[keyword].is_string()) return Refuse(keyword, where, "must be a string");
    }
    if (const auto pattern = schema.find("pattern"); pattern != schema.end())
      CheckPattern(pattern->get_ref<const std::string&>(), where.empty() ? "pattern" : where + ".pattern");
    if (const auto format = schema.find("format");
        format != schema.end() && !kFormats.contains(format->get_ref<const std::string&>()))
      Refuse("format", where,
             fmt::format("\"{}\" is not supported", format->get_ref<const std::string&>().substr(0, 50)));
  }

  /// The larger of the counts of "3,500}".
  static int64_t LargestIn(const std::string& text) {
    int64_t largest = 0, number = 0;
    for (const char c : text) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (!digit && c != ',') break;
      number = digit ? std::min<int64_t>(10 * number + (c - '0'), INT32_MAX) : 0;
      largest = std::max(largest, number);
    }
    return largest;
  }

  /// The compiler writes what a pattern spells out into the text as it is, where JSON needs an escape.
  void CheckPattern(const std::string& pattern, const std::string& where) {
    constexpr std::string_view kClasses = "dDwWsS";
    bool spells = pattern.find('"') != std::string::npos;
    for (size_t i = 0; i < pattern.size(); ++i) {
      spells = spells || static_cast<unsigned char>(pattern[i]) < 0x20;
      if (pattern[i] == '{' && LargestIn(pattern.substr(i + 1)) > kMostRepetitions)
        return Expect(false, where, fmt::format("may repeat nothing more than {} times", kMostRepetitions));
      if (pattern[i] != '\\') continue;
      const char escaped = ++i < pattern.size() ? pattern[i] : '\\';
      const bool letter = std::isalnum(static_cast<unsigned char>(escaped)) != 0;
      spells = spells || escaped == '\\' || (letter && kClasses.find(escaped) == std::string_view::npos);
    }
    Expect(!spells, where,
           "may not spell out quotation marks, backslashes or control characters, nor use escapes other than "
           "\\d, \\w, \\s and those of punctuation");
  }

  void CheckArray(const OrderedJson& schema, const std::string& where) {
    CheckCount(schema, "minItems", where);
    CheckCount(schema, "maxItems", where);
    if (const auto items = schema.find("items"); items != schema.end() && !items->is_boolean())
      Check(*items, where.empty() ? "items" : where + ".items");
    if (const auto prefix = schema.find("prefixItems"); prefix != schema.end())
      CheckList(*prefix, "prefixItems", where);
  }

  void CheckObject(const OrderedJson& schema, const std::string& where) {
    CheckEach(schema, "properties", where);
    CheckEach(schema, "patternProperties", where);
    if (const auto patterns = schema.find("patternProperties"); patterns != schema.end() && patterns->is_object()) {
      for (const auto& [pattern, ignored] : patterns->items())
        CheckPattern(pattern, where.empty() ? "patternProperties" : where + ".patternProperties");
    }
    CheckCount(schema, "minProperties", where);
    CheckCount(schema, "maxProperties", where);
    const auto more = schema.find("additionalProperties");
    if (more != schema.end() && !more->is_boolean())
      Check(*more, where.empty() ? "additionalProperties" : where + ".additionalProperties");
    const bool closed = more != schema.end() && *more == false;
    // A name may come twice where it is not one of `properties`, and then counts once.
    if (schema.contains("minProperties") && !closed)
      Refuse("minProperties", where, "needs additionalProperties: false");
    if (schema.contains("patternProperties") &&
        (schema.contains("properties") || !closed || schema.contains("minProperties")))
      Refuse("patternProperties", where, "beside properties, or without additionalProperties: false, is not supported");
    const auto required = schema.find("required");
    if (required == schema.end()) return;
    if (!required->is_array()) return Refuse("required", where, "must be a list of names");
    const auto properties = schema.find("properties");
    for (const OrderedJson& name : *required) {
      const bool named = name.is_string() && properties != schema.end() && properties->is_object() &&
                         properties->contains(name.get_ref<const std::string&>());
      if (!named) return Refuse("required", where, "names what properties does not have");
    }
  }
};

}  // namespace

OrderedJson WithoutLengths(OrderedJson schema) {
  if (!schema.is_object()) return schema;
  for (auto& [keyword, value] : schema.items()) {
    const bool of_names =
        keyword == "properties" || keyword == "patternProperties" || keyword == "$defs" || keyword == "definitions";
    const bool list = keyword == "prefixItems" || keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf";
    if (of_names || list) {
      for (auto& [name, part] : value.items()) part = WithoutLengths(std::move(part));
    } else if (keyword == "items" || keyword == "additionalProperties") {
      value = WithoutLengths(std::move(value));
    }
  }
  if (!schema.contains("minLength") && !schema.contains("maxLength")) return schema;
  const std::string least = schema.contains("minLength") ? schema["minLength"].dump() : "0";
  const std::string most = schema.contains("maxLength") ? schema["maxLength"].dump() : "";
  schema["pattern"] = fmt::format(R"(^[^\x00-\x1f"\\]{{{},{}}}$)", least, most);
  schema.erase("minLength");
  schema.erase("maxLength");
  return schema;
}

std::string WhyNotKept(const OrderedJson& schema) {
  SchemaChecker checker;
  checker.Check(schema, "");
  return checker.problem;
}

}  // namespace quire
