#include "comm/schema/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "comm/base/error.h"
#include "comm/schema/schema_keywords.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

constexpr int kDeepestReference = 64;  // depth of nested references and combinations

void Cross(std::vector<PlainSchema>& out, const std::vector<PlainSchema>& others) {
  std::vector<PlainSchema> joined;
  for (const PlainSchema& a : out) {
    for (const PlainSchema& b : others) {
      PlainSchema both = Merged(a, b);
      const bool none = both.types == 0 || (both.values && both.values->empty());
      if (!none) joined.push_back(std::move(both));
      if (joined.size() > kMostAlternatives) Fail("comes to more than {} alternatives", kMostAlternatives);
    }
  }
  out = std::move(joined);
}

/// Charges work units for reading a schema's keywords: for values that are copied and names that are compared pairwise.
void ChargeReading(const OrderedJson& schema) {
  for (const auto& [keyword, value] : schema.items()) {
    const bool is_elsewhere = keyword == "$defs" || keyword == "definitions" || keyword == "allOf" ||
                              keyword == "anyOf" || keyword == "oneOf";
    if (!is_elsewhere) ChargeSchemaWork(WorkOfCopy(value));
    if (keyword == "required") ChargeSchemaWork(static_cast<int64_t>(value.size() * value.size() / 16));
  }
}

/// Decodes one part of a reference, for example "a~1b%20c".
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c = at < text.size() ? text[at] : ' ';
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(16 * digit(i + 1) + digit(i + 2));
      i += 2;
    } else if (text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      out += text[++i] == '0' ? '~' : '/';
    } else {
      out += text[i];
    }
  }
  return out;
}

const OrderedJson* FindAnchor(const OrderedJson& json, const std::string& name) {
  ChargeSchemaWork(1);
  if (!json.is_structured()) return nullptr;
  if (json.is_object()) {
    for (const char* keyword : {"$anchor", "$dynamicAnchor", "$id"}) {
      const auto anchor = json.find(keyword);
      const bool is_id = keyword == std::string_view("$id");
      if (anchor != json.end() && anchor->is_string() && *anchor == (is_id ? "#" + name : name)) return &json;
    }
  }
  for (const OrderedJson& part : json) {
    if (const OrderedJson* found = FindAnchor(part, name)) return found;
  }
  return nullptr;
}

/// Keywords of references (kReferences), and keywords with a list of schemas to combine (kLists).
constexpr const char* kReferences[] = {"$ref", "$recursiveRef", "$dynamicRef"};
constexpr const char* kLists[] = {"allOf", "anyOf", "oneOf"};

}  // namespace

std::string PlaceOf(const std::string& where, const std::string& keyword) {
  return fmt::format("{}{}{}", where, where.empty() ? "" : ".", keyword.substr(0, 100));
}

const OrderedJson* SchemaReader::Find(const std::string& reference) const {
  if (!reference.starts_with('#')) {
    // A reference may begin with the root schema's own $id.
    const auto id = root_.is_object() ? root_.find("$id") : root_.end();
    if (!root_.is_object() || id == root_.end() || !id->is_string()) return nullptr;
    const auto& own = id->get_ref<const std::string&>();
    if (own.starts_with('#') || !reference.starts_with(own)) return nullptr;
    const std::string rest = reference.substr(own.size());
    return rest.empty() ? &root_ : rest.starts_with('#') ? Find(rest) : nullptr;
  }
  if (reference.size() > 1 && reference[1] != '/') return FindAnchor(root_, reference.substr(1));
  const OrderedJson* at = &root_;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    ChargeSchemaWork(1 + static_cast<int64_t>(at->size() / 8));
    const std::string part = Unescaped(std::string_view(reference).substr(begin, end - begin));
    if (at->is_object() && at->contains(part)) {
      at = &(*at)[part];
    } else if (at->is_array() && !part.empty() && part.find_first_not_of("0123456789") == std::string::npos &&
               part.size() < 6 && std::stoul(part) < at->size()) {
      at = &(*at)[std::stoul(part)];
    } else {
      return nullptr;
    }
    begin = end + 1;
  }
  return at;
}

PlainSchema SchemaReader::ReadPlain(const OrderedJson& schema, const std::string& where) const {
  return ReadKeywords(schema, where, remarks_);
}

std::vector<PlainSchema> SchemaReader::Read(const OrderedJson& schema, const std::string& where, int depth) const {
  ChargeSchemaWork(20);
  if (depth > kDeepestReference) Fail("refers to itself without end");
  if (schema.is_boolean()) return schema.get<bool>() ? std::vector(1, PlainSchema()) : std::vector<PlainSchema>();
  if (!schema.is_object()) Fail("is no schema: it must be an object");
  ChargeReading(schema);
  std::vector<PlainSchema> out = {ReadKeywords(schema, where, nullptr)};
  if (out.front().types == 0) out.clear();
  for (const char* keyword : kReferences) {
    const OrderedJson* reference = FindKeyword(schema, keyword);
    if (reference == nullptr) continue;
    const OrderedJson* target = reference->is_string() ? Find(reference->get<std::string>()) : nullptr;
    if (target == nullptr) Fail("has a reference that leads to nothing in the schema itself");
    std::vector<PlainSchema> there = Read(*target, where, depth + 1);
    // The schema has no keywords besides the reference, so nothing is combined with the target.
    if (schema.size() == 1) return there;
    Cross(out, there);
  }
  for (const char* keyword : kLists) {
    const OrderedJson* list = FindKeyword(schema, keyword);
    if (list == nullptr) continue;
    if (!list->is_array()) Fail("has no list of schemas in {}", keyword);
    std::vector<PlainSchema> any;
    for (const OrderedJson& one : *list) {
      std::vector<PlainSchema> there = Read(one, where, depth + 1);
      if (keyword == kLists[0]) {
        Cross(out, there);
      } else {
        std::ranges::move(there, std::back_inserter(any));
        if (any.size() > kMostAlternatives) Fail("comes to more than {} alternatives", kMostAlternatives);
      }
    }
    if (keyword != kLists[0]) Cross(out, any);
  }
  return out;
}

std::vector<PlainSchema> SchemaReader::Alternatives(const OrderedJson& schema) const { return Read(schema, "", 0); }

void SchemaReader::LookForOverlaps(const OrderedJson& options, const std::string& where) const {
  for (size_t i = 0; i < options.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (Exclude(*this, options[k], options[i])) continue;
      const std::string why =
          fmt::format("has the alternatives {} and {}, which a value may both be accepted by", k, i);
      return remarks_->unkept.push_back({PlaceOf(where, "oneOf"), why});
    }
  }
}

void SchemaReader::Look(const OrderedJson& schema, const std::string& where) const {
  ChargeSchemaWork(20);
  if (schema.is_boolean()) return;
  if (!schema.is_object()) return remarks_->wrong.push_back({where, "is no schema: it must be an object"});
  ChargeReading(schema);
  (void)ReadPlain(schema, where);
  for (const char* keyword : kReferences) {
    const OrderedJson* reference = FindKeyword(schema, keyword);
    if (reference == nullptr) continue;
    if (!reference->is_string() || Find(reference->get<std::string>()) == nullptr)
      return remarks_->wrong.push_back({PlaceOf(where, keyword), "must point into the schema itself, as #/$defs/NAME"});
  }
  const auto look_at_list = [&](const char* keyword) {
    const OrderedJson* list = FindKeyword(schema, keyword);
    if (list == nullptr || !list->is_array()) return;
    for (size_t i = 0; i < list->size(); ++i) Look((*list)[i], PlaceOf(where, fmt::format("{}.{}", keyword, i)));
  };
  for (const char* keyword : kLists) {
    const OrderedJson* list = FindKeyword(schema, keyword);
    if (list == nullptr) continue;
    if (!list->is_array() || list->empty())
      return remarks_->wrong.push_back({PlaceOf(where, keyword), "must be a list of at least one schema"});
    look_at_list(keyword);
  }
  for (const char* keyword : {"prefixItems", "items"}) look_at_list(keyword);
  for (const char* keyword : {"items", "additionalItems", "unevaluatedItems", "additionalProperties",
                              "unevaluatedProperties", "propertyNames"}) {
    const OrderedJson* inside = FindKeyword(schema, keyword);
    if (inside != nullptr && inside->is_object()) Look(*inside, PlaceOf(where, keyword));
  }
  for (const char* keyword : {"properties", "patternProperties", "$defs", "definitions"}) {
    const OrderedJson* named = FindKeyword(schema, keyword);
    if (named == nullptr) continue;
    if (!named->is_object()) return remarks_->wrong.push_back({PlaceOf(where, keyword), "must be an object"});
    for (const auto& [name, inside] : named->items()) Look(inside, PlaceOf(where, PlaceOf(keyword, name)));
  }
  if (!remarks_->wrong.empty()) return;
  try {
    (void)Alternatives(schema);
    if (const OrderedJson* options = FindKeyword(schema, "oneOf")) LookForOverlaps(*options, where);
  } catch (const Error& error) {
    remarks_->wrong.push_back({where, error.what()});
  }
}

}  // namespace quire
