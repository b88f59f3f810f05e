#include "comm/schema/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/schema/keyword_lists.h"
#include "comm/schema/text_formats.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

const std::map<std::string_view, unsigned> kTypes = {{"null", kNullType},       {"boolean", kBooleanType},
                                                     {"integer", kIntegerType}, {"number", kNumberType | kIntegerType},
                                                     {"string", kStringType},   {"array", kArrayType},
                                                     {"object", kObjectType}};

class KeywordReader {
 public:
  KeywordReader(const OrderedJson& schema, const std::string& where, SchemaRemarks* remarks)
      : schema_(schema), where_(where), remarks_(remarks) {}

  PlainSchema Read() {
    ReadTypes();
    ReadValues();
    ReadNumbers();
    ReadTexts();
    ReadArray();
    ReadObject();
    for (const auto& [keyword, value] : schema_.items()) {
      if (value.is_null()) continue;
      if (keywords::kOfNone.contains(keyword)) {
        if (keyword == "not" || (keyword == "if" && (Find("then") || Find("else"))))
          Unkept(keyword, "is not supported");
      } else if (!IsKnown(keyword)) {
        Unknown(keyword, "is no keyword that asks something of a value");
      }
    }
    return std::move(out_);
  }

 private:
  static bool IsKnown(std::string_view keyword) {
    for (const keywords::Words* words : {&keywords::kSilent, &keywords::kOfNumbers, &keywords::kOfTexts,
                                         &keywords::kOfArrays, &keywords::kOfObjects}) {
      if (words->contains(keyword)) return true;
    }
    return false;
  }
  const OrderedJson* Find(const char* keyword) const { return FindKeyword(schema_, keyword); }
  static bool IsNumber(const OrderedJson& value) { return value.is_number() || value.is_binary(); }
  void Wrong(const std::string& keyword, const std::string& why) {
    if (remarks_ != nullptr) remarks_->wrong.push_back({PlaceOf(where_, keyword), why});
  }
  void Unkept(const std::string& keyword, const std::string& why) {
    if (remarks_ != nullptr) remarks_->unkept.push_back({PlaceOf(where_, keyword), why});
  }

  void Unknown(const std::string& keyword, const std::string& why) {
    if (remarks_ != nullptr) remarks_->unknown.push_back({PlaceOf(where_, keyword), why});
  }

  void ReadTypes() {
    const OrderedJson* type = Find("type");
    if (type == nullptr) {
      // In the standard, a schema with keywords of one type only, such as minLength, also accepts values of all other
      // types. Authors of such schemas mean only this type, so the keywords decide the type.
      const auto has = [&](const keywords::Words& words) {
        return std::ranges::any_of(
            schema_.items(), [&](const auto& item) { return words.contains(item.key()) && !item.value().is_null(); });
      };
      if (has(keywords::kOfObjects)) {
        out_.types = kObjectType;
      } else if (has(keywords::kOfArrays)) {
        out_.types = kArrayType;
      } else if (has(keywords::kOfTexts)) {
        out_.types = kStringType;
      } else if (has(keywords::kOfNumbers)) {
        out_.types = kNumberType | kIntegerType;
      }
      return;
    }
    unsigned types = 0;
    for (const OrderedJson& one : type->is_array() ? *type : OrderedJson::array({*type})) {
      const auto known = one.is_string() ? kTypes.find(one.get_ref<const std::string&>()) : kTypes.end();
      if (known == kTypes.end())
        return Wrong("type", "must be null, boolean, integer, number, string, array or object");
      types |= known->second;
    }
    out_.types = types;
  }

  void ReadValues() {
    if (const OrderedJson* one = Find("const")) out_.values.emplace(1, *one);
    const OrderedJson* list = Find("enum");
    if (list == nullptr) return;
    if (!list->is_array() || list->empty()) return Wrong("enum", "must be a list of at least one value");
    std::vector<OrderedJson> values(list->begin(), list->end());
    if (out_.values) std::erase_if(values, [&](const OrderedJson& value) { return value != out_.values->front(); });
    out_.values = std::move(values);
  }

  void ReadNumbers() {
    for (const bool upper : {false, true}) {
      const char *limit = upper ? "maximum" : "minimum", *beyond = upper ? "exclusiveMaximum" : "exclusiveMinimum";
      const OrderedJson *at = Find(limit), *excluded = Find(beyond);
      if (at != nullptr && !IsNumber(*at)) return Wrong(limit, "must be a number");
      if (excluded != nullptr && !IsNumber(*excluded) && !excluded->is_boolean())
        return Wrong(beyond, "must be a number");
      // In the oldest drafts, exclusiveMinimum is a boolean that belongs to minimum; exclusiveMaximum belongs to
      // maximum.
      const bool flag = excluded != nullptr && *excluded == true;
      if (at != nullptr) TakeBound(limit, {DumpExactJson(*at), upper, flag});
      if (excluded != nullptr && IsNumber(*excluded)) TakeBound(beyond, {DumpExactJson(*excluded), upper, true});
    }
    const OrderedJson* divisor = Find("multipleOf");
    if (divisor == nullptr) return;
    if (!IsNumber(*divisor) || (divisor->is_number() && *divisor <= 0))
      return Wrong("multipleOf", "must be a number above 0");
    const double value = divisor->is_number() ? divisor->get<double>() : HUGE_VAL;
    if (value > kMostDivisor || value != std::floor(value))
      return Unkept("multipleOf", fmt::format("must be an integer up to {}", kMostDivisor));
    out_.divisor = static_cast<int64_t>(value);
    out_.types &= ~static_cast<unsigned>(kNumberType);
  }

  void TakeBound(const char* keyword, NumberBound bound) {
    if (!CanBeWritten(bound)) return Unkept(keyword, "asks for numbers that are further from 0 than 1e100");
    out_.bounds.push_back(std::move(bound));
  }
  std::optional<size_t> Count(const char* keyword) {
    const OrderedJson* count = Find(keyword);
    if (count == nullptr) return std::nullopt;
    const double value = count->is_number() ? count->get<double>() : -1;
    if (count->is_binary() || value > kMostCounted) {
      Unkept(keyword, fmt::format("counts up to {} alone", kMostCounted));
    } else if (value < 0 || value != std::floor(value)) {
      Wrong(keyword, "must be an integer from 0 on");
    } else {
      return static_cast<size_t>(value);
    }
    return std::nullopt;
  }
  Counts Between(const char* least, const char* most) {
    Counts out;
    out.least = Count(least).value_or(0);
    out.most = Count(most);
    return out;
  }

  void ReadTexts() {
    out_.length = Between("minLength", "maxLength");
    const OrderedJson *pattern = Find("pattern"), *format = Find("format");
    for (const char* keyword : {"pattern", "format"}) {
      if (Find(keyword) != nullptr && !Find(keyword)->is_string()) return Wrong(keyword, "must be a string");
    }
    if (pattern != nullptr) TakePattern("pattern", pattern->get_ref<const std::string&>());
    // In the standard, a format is only a remark. This reader enforces a format when there is no pattern and when
    // enforcing is cheap.
    if (format != nullptr && pattern == nullptr) {
      if (const auto known = PatternOfFormat(format->get_ref<const std::string&>())) TakePattern("format", *known);
      if (out_.StatesOfCountedTexts() > kMostCounted) out_.texts.reset();
    }
    if (format != nullptr && (pattern != nullptr || !out_.texts)) Unknown("format", "is a remark here");
    if (pattern == nullptr || out_.StatesOfCountedTexts() <= 2 * kMostCounted) return;
    Unkept(out_.length.most ? "maxLength" : "minLength", "beside this pattern unfolds too far");
    out_.length = Counts();
  }
  void TakePattern(const char* keyword, std::string_view pattern) {
    try {
      out_.texts = TextsWith(pattern);
    } catch (const Error& error) {
      Unkept(keyword, error.what());
    }
  }

  bool IsSchema(const OrderedJson& schema, const std::string& keyword) {
    const bool is = schema.is_boolean() || schema.is_object();
    if (!is) Wrong(keyword, "must be a schema");
    return is;
  }
  void ReadArray() {
    const char* front = Find("prefixItems") != nullptr ? "prefixItems" : "items";
    if (const OrderedJson* list = Find(front); list != nullptr && list->is_array()) {
      for (const OrderedJson& one : *list) {
        if (IsSchema(one, front)) out_.first_items.push_back(one);
      }
      const OrderedJson* rest = Find(front == std::string_view("items") ? "additionalItems" : "items");
      if (rest != nullptr && IsSchema(*rest, "items")) out_.items = *rest;
    } else if (const OrderedJson* items = Find("items")) {
      if (IsSchema(*items, "items")) out_.items = *items;
    }
    if (Find("prefixItems") != nullptr && !Find("prefixItems")->is_array()) Wrong("prefixItems", "must be a list");
    if (const OrderedJson* rest = Find("unevaluatedItems"); rest != nullptr && *rest != true) {
      if (Find("items") == nullptr && !Combines() && IsSchema(*rest, "unevaluatedItems")) {
        out_.items = *rest;
      } else {
        Unkept("unevaluatedItems", "beside others is not supported");
      }
    }
    out_.item_count = Between("minItems", "maxItems");
    if (const OrderedJson* unique = Find("uniqueItems"); unique != nullptr && *unique != false) {
      if (out_.item_count.most.value_or(2) > 1) Unkept("uniqueItems", "is not supported");
    }
    if (Find("contains") != nullptr) Unkept("contains", "is not supported");
  }
  bool Combines() const { return Find("allOf") || Find("anyOf") || Find("oneOf") || Find("$ref") || Find("if"); }

  void ReadNamed(const char* keyword, PlainSchema::Named& named) {
    const OrderedJson* schemas = Find(keyword);
    if (schemas == nullptr) return;
    if (!schemas->is_object()) return Wrong(keyword, "must be an object");
    for (const auto& [name, schema] : schemas->items()) {
      if (IsSchema(schema, PlaceOf(keyword, name))) named.emplace_back(name, schema);
    }
  }
  void ReadObject();
  void ReadPatternsOfNames();

  const OrderedJson& schema_;
  const std::string& where_;
  SchemaRemarks* remarks_;
  PlainSchema out_;
};

void KeywordReader::ReadPatternsOfNames() {
  constexpr size_t kMostPatterns = 4;  // each pattern may combine with any other
  PlainSchema::Named patterns;
  ReadNamed("patternProperties", patterns);
  for (auto& [pattern, schema] : patterns) {
    try {
      (void)TextsWith(pattern);
      if (out_.by_pattern.size() == kMostPatterns) Fail("has more than {} patterns", kMostPatterns);
      out_.by_pattern.emplace_back(pattern, std::move(schema));
    } catch (const Error& error) {
      Unkept("patternProperties", error.what());
    }
  }
}

void KeywordReader::ReadObject() {
  ReadNamed("properties", out_.properties);
  ReadPatternsOfNames();
  for (const char* keyword : {"unevaluatedProperties", "additionalProperties"}) {
    const OrderedJson* others = Find(keyword);
    if (others == nullptr || !IsSchema(*others, keyword)) continue;
    const bool last = keyword == std::string_view("additionalProperties") || !Combines();
    if (last) out_.others = *others;
    if (!last && *others != true) Unkept(keyword, "beside others is not supported");
  }
  if (const OrderedJson* names = Find("propertyNames"); names != nullptr && IsSchema(*names, "propertyNames"))
    out_.names = *names;
  if (const OrderedJson* required = Find("required")) {
    const bool names = required->is_array() &&
                       std::ranges::all_of(*required, [](const OrderedJson& name) { return name.is_string(); });
    if (!names) return Wrong("required", "must be a list of names");
    for (const OrderedJson& name : *required) {
      if (!out_.Requires(name.get_ref<const std::string&>())) out_.required.push_back(name);
    }
  }
  out_.member_count = Between("minProperties", "maxProperties");
  // The grammar allows a name outside `properties` twice, but the parsed object has it once. So the grammar cannot
  // count such members.
  const size_t sure = std::max<size_t>(1, out_.required.size());
  if (out_.member_count.least > sure && (out_.others != false || !out_.by_pattern.empty())) {
    Unkept("minProperties", "needs additionalProperties: false");
    out_.member_count.least = 0;
  }
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    if (Find(keyword) != nullptr && !Find(keyword)->empty()) Unkept(keyword, "is not supported");
  }
}

}  // namespace

const OrderedJson* FindKeyword(const OrderedJson& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  const bool given = found != schema.end() && (!found->is_null() || keyword == std::string_view("const"));
  return given ? &*found : nullptr;
}

PlainSchema ReadKeywords(const OrderedJson& schema, const std::string& where, SchemaRemarks* remarks) {
  return KeywordReader(schema, where, remarks).Read();
}

}  // namespace quire
