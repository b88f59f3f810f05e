#include "comm/schema/value_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/exact_json.h"
#include "comm/schema/member_rules.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

constexpr const char* kInteger = "\"0\" | \"-\"? [1-9] [0-9]*";
constexpr const char* kNumber = "\"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9] [0-9]*)? ([Ee] [+\\-]? [0-9] [0-9]*)?";

std::string InJson(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

std::string ValueRules::Blanks() {
  // A punctuation mark or a value follows the blanks. The look-ahead lets masks decide early which tokens may cross the
  // end of the blanks.
  return rules_.Add(fmt::format("Regex(\"[ \\\\n\\\\r\\\\t]{{0,{}}}\") (= [\\\"0-9tfn{{}}\\[\\],:\\-])", most_blanks_));
}

std::string ValueRules::Anything() {
  const auto [found, is_new] = names_.try_emplace("any");
  if (!is_new) return found->second;
  const std::string name = found->second = rules_.New();
  const std::string text = "\"\\\"\" " + TextRule(rules_, TextAutomaton::Any(), spelling_), blanks = Blanks();
  const std::string item = rules_.Add(fmt::format("{} {}", name, blanks));
  const std::string member = rules_.Add(fmt::format("{0} {1} \":\" {1} {2} {1}", text, blanks, name));
  const std::string more_items = rules_.New(), more_members = rules_.New();
  rules_.Set(more_items, fmt::format("\"]\" | \",\" {} {} {}", blanks, item, more_items));
  rules_.Set(more_members, fmt::format("\"}}\" | \",\" {} {} {}", blanks, member, more_members));
  const std::string array = rules_.Add(fmt::format("\"[\" {} (\"]\" | {} {})", blanks, item, more_items));
  const std::string object = rules_.Add(fmt::format("\"{{\" {} (\"}}\" | {} {})", blanks, member, more_members));
  rules_.Set(name, fmt::format("\"null\" | \"true\" | \"false\" | {} | {} | {} | {}", rules_.Add(kNumber), text, array,
                               object));
  return name;
}

std::string ValueRules::Value(const OrderedJson& schema) {
  ChargeSchemaWork(20);
  const auto [found, is_new] = names_.try_emplace(DumpExactJson(schema));
  if (!is_new) return found->second;
  const std::string name = found->second = rules_.New();
  std::vector<PlainSchema> alternatives = reader_.Alternatives(schema);
  // When an alternative accepts all strings, the string constraints of the others do not matter.
  const bool open = std::ranges::any_of(alternatives, &PlainSchema::TakesAllTexts);
  std::vector<std::string> ways;
  for (PlainSchema& one : alternatives) {
    if (open && !one.TakesAllTexts()) {
      if (one.values) std::erase_if(*one.values, [](const OrderedJson& value) { return value.is_string(); });
      one.types &= ~static_cast<unsigned>(kStringType);
    }
    for (std::string& way : Plain(one)) {
      if (std::ranges::count(ways, way) == 0) ways.push_back(std::move(way));
    }
  }
  rules_.Set(name, OneOf(ways));
  if (ways.empty()) found->second.clear();
  return found->second;
}

std::vector<OrderedJson> ValueRules::ValuesOf(const PlainSchema& schema) const {
  std::vector<OrderedJson> out;
  for (const OrderedJson& value : *schema.values) {
    if (std::ranges::count(out, value) == 0 && Accepts(reader_, schema, value)) out.push_back(value);
  }
  return out;
}

std::string ValueRules::Constant(const OrderedJson& value) {
  if (value.is_string()) {
    const std::string tail = InJson(value.get<std::string>());
    if (spelling_ == Spelling::kJson) return LiteralOf(tail);
    return "\"\\\"\" " + TextRule(rules_, TextAutomaton::Of({value.get<std::string>()}), spelling_);
  }
  if (!value.is_structured()) return LiteralOf(DumpExactJson(value));
  const std::string blanks = Blanks();
  std::string out;
  for (const auto& [key, part] : value.items()) {
    out += out.empty() ? "" : fmt::format("\",\" {} ", blanks);
    if (value.is_object()) out += fmt::format("{0} {1} \":\" {1} ", Constant(OrderedJson(key)), blanks);
    out += fmt::format("{} {} ", Constant(part), blanks);
  }
  return value.is_object() ? fmt::format("\"{{\" {} {}\"}}\"", blanks, out)
                           : fmt::format("\"[\" {} {}\"]\"", blanks, out);
}

std::vector<std::string> ValueRules::Plain(const PlainSchema& schema) {
  if (schema.types == kAnyType && !schema.values && schema.TakesAllTexts() && schema.bounds.empty() &&
      schema.divisor == 1 && schema.first_items.empty() && schema.items == true && !schema.item_count.bounded() &&
      schema.properties.empty() && schema.by_pattern.empty() && schema.others == true && schema.names == true &&
      schema.required.empty() && !schema.member_count.bounded())
    return {Anything()};
  std::vector<std::string> out;
  if (schema.values) {
    for (const OrderedJson& value : ValuesOf(schema)) out.push_back(Constant(value));
    return out;
  }
  out = OtherThanTexts(schema);
  if (schema.Has(kStringType)) {
    if (std::string text = Text(schema); !text.empty()) out.push_back(std::move(text));
  }
  return out;
}

std::vector<std::string> ValueRules::OtherThanTexts(const PlainSchema& schema) {
  std::vector<std::string> out;
  if (schema.Has(kNullType)) out.emplace_back("\"null\"");
  if (schema.Has(kBooleanType)) out.emplace_back("(\"true\" | \"false\")");
  AddNumbers(schema, out);
  if (schema.Has(kArrayType)) {
    if (std::string array = Array(schema); !array.empty()) out.push_back(std::move(array));
  }
  if (schema.Has(kObjectType)) {
    if (std::string object = Object(schema); !object.empty()) out.push_back(std::move(object));
  }
  return out;
}

void ValueRules::AddNumbers(const PlainSchema& schema, std::vector<std::string>& out) {
  if (schema.Has(kNumberType)) {
    if (schema.bounds.empty()) return out.push_back(rules_.Add(kNumber));
    const TextAutomaton texts = NumberTexts(schema.bounds);
    if (!texts.IsEmpty()) out.push_back(TextRule(rules_, texts, Spelling::kRaw));
  } else if (schema.Has(kIntegerType)) {
    if (schema.bounds.empty() && schema.divisor == 1) return out.push_back(rules_.Add(kInteger));
    const TextAutomaton texts = IntegerTexts(schema.bounds, schema.divisor);
    if (!texts.IsEmpty()) out.push_back(TextRule(rules_, texts, Spelling::kRaw));
  }
}

std::string ValueRules::Text(const PlainSchema& schema) {
  const TextAutomaton texts = schema.Texts();
  return texts.IsEmpty() ? "" : "\"\\\"\" " + TextRule(rules_, texts, spelling_);
}

std::string ValueRules::Array(const PlainSchema& schema) {
  const size_t least = schema.item_count.least;
  std::optional<size_t> most = schema.item_count.most;
  // Writes a rule for each number of items already written, up to the number after which all rules would be equal.
  size_t last = most ? *most : std::max(least, schema.first_items.size());
  std::vector<std::string> items;
  for (size_t i = 0; i < (most ? last : last + 1); ++i) {
    items.push_back(Value(i < schema.first_items.size() ? schema.first_items[i] : schema.items));
    if (!items.back().empty()) continue;
    most = last = i;  // no further item is possible
    break;
  }
  if (last < least) return "";
  const std::string blanks = Blanks();
  std::vector<std::string> behind;
  for (size_t i = 0; i <= last; ++i) behind.push_back(rules_.New());
  const auto ways = [&](size_t count, const std::string& before) {
    std::vector<std::string> out;
    if (count >= least) out.emplace_back("\"]\"");
    if (!most || count < *most)
      out.push_back(fmt::format("{}{} {} {}", before, items[count], blanks, behind[std::min(count + 1, last)]));
    return OneOf(out);
  };
  for (size_t i = 0; i <= last; ++i) rules_.Set(behind[i], ways(i, fmt::format("\",\" {} ", blanks)));
  return rules_.Add(fmt::format("\"[\" {} ({})", blanks, ways(0, "")));
}

PlainSchema::Named ValueRules::NamedMembers(const PlainSchema& schema) const {
  PlainSchema::Named named;
  for (const auto& [name, ignored] : schema.properties) named.emplace_back(name, schema.ForName(name));
  for (const std::string& name : schema.required) {
    if (std::ranges::count(schema.properties, name, &PlainSchema::Named::value_type::first) == 0)
      named.emplace_back(name, schema.ForName(name));
  }
  for (auto& [name, member] : named) {
    if (!Accepts(reader_, schema.names, OrderedJson(name))) member = false;
  }
  return named;
}

std::vector<std::pair<TextAutomaton, OrderedJson>> ValueRules::OtherNames(const PlainSchema& schema) const {
  std::vector<std::string> named;
  for (const auto& [name, ignored] : NamedMembers(schema)) named.push_back(name);
  TextAutomaton free = named.empty() ? TextAutomaton::Any() : Not(TextAutomaton::Of(named));
  if (schema.names != true) {
    TextAutomaton allowed;  // union of the alternatives' accepted names
    allowed = Not(TextAutomaton::Any());
    for (const PlainSchema& one : reader_.Alternatives(schema.names)) {
      if (one.values) {
        std::vector<std::string> texts;
        for (const OrderedJson& value : ValuesOf(one)) {
          if (value.is_string()) texts.push_back(value);
        }
        allowed = Not(Intersection(Not(allowed), Not(TextAutomaton::Of(texts))));
      } else if (one.Has(kStringType)) {
        allowed = Not(Intersection(Not(allowed), Not(one.Texts())));
      }
    }
    free = Intersection(free, allowed);
  }
  // Splits the names outside `properties` into sets, so that each pattern matches all names of a set or none of them.
  std::vector<std::pair<TextAutomaton, OrderedJson>> parts = {{std::move(free), schema.others}};
  std::vector<bool> found = {false};
  for (const auto& [pattern, member] : schema.by_pattern) {
    const TextAutomaton with = TextsWith(pattern), without = Not(with);
    for (size_t i = parts.size(); i-- > 0;) {
      TextAutomaton both = Intersection(parts[i].first, with);
      if (both.IsEmpty()) continue;
      parts.emplace_back(std::move(both), found[i] ? BothOf(parts[i].second, member) : member);
      found.push_back(true);
      parts[i].first = Intersection(parts[i].first, without);
    }
  }
  std::erase_if(parts, [](const auto& part) { return part.first.IsEmpty() || part.second == false; });
  return parts;
}

std::string ValueRules::Object(const PlainSchema& schema) {
  const std::string blanks = Blanks();
  const std::string colon = fmt::format(" {0} \":\" {0} ", blanks);
  std::vector<MemberRule> members;
  for (const auto& [name, member] : NamedMembers(schema)) {
    const std::string value = Value(member);
    const bool required = schema.Requires(name);
    if (value.empty() && required) return "";
    if (!value.empty()) members.push_back({rules_.Add(Constant(OrderedJson(name)) + colon + value), required});
  }
  std::vector<std::string> others;
  for (const auto& [names, member] : OtherNames(schema)) {
    const std::string value = Value(member);
    if (!value.empty()) others.push_back(rules_.Add("\"\\\"\" " + TextRule(rules_, names, spelling_) + colon + value));
  }
  const std::string inside =
      MembersRule(rules_, members, others, schema.member_count, {blanks, "\",\" " + blanks, "\"}\""});
  return inside.empty() ? "" : rules_.Add(fmt::format("\"{{\" {} {}", blanks, inside));
}

}  // namespace quire
