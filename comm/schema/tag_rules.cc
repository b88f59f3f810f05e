#include "comm/schema/tag_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "comm/base/error.h"
#include "comm/schema/member_rules.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

const CodeRanges kBlanks = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
constexpr const char* kAnyName = "^[A-Za-z_][A-Za-z0-9_]*$";

bool HasBlanksAtEnds(const std::string& text) { return !TextAutomaton::NotAtEnds(kBlanks).Accepts(text); }

/// Returns the automaton of all texts that end with the first occurrence of `text`.
TextAutomaton UpTo(std::string_view text) {
  TextAutomaton out = TextAutomaton::With(text);
  out.states.back().edges.clear();
  return out;
}

}  // namespace

bool TagRules::CanBeName(const std::string& name) const {
  return !name.empty() && name.size() < 256 && name.find(qwen_ ? ">" : "</arg_key>") == std::string::npos;
}

std::string TagRules::Members(const OrderedJson& schema) {
  std::vector<std::string> ways;
  const auto add = [&](const PlainSchema& object) {
    if (std::string members = MembersOf(object); !members.empty() && std::ranges::count(ways, members) == 0)
      ways.push_back(std::move(members));
  };
  for (const PlainSchema& one : values_.reader().Alternatives(schema)) {
    if (!one.Has(kObjectType)) continue;
    if (!one.values) {
      add(one);
      continue;
    }
    for (const OrderedJson& value : values_.ValuesOf(one)) {
      if (!value.is_object()) continue;
      PlainSchema object;
      object.others = false;
      for (const auto& [name, member] : value.items()) {
        object.properties.emplace_back(name, OrderedJson{{"const", member}});
        object.required.push_back(name);
      }
      add(object);
    }
  }
  return ways.empty() ? "" : values_.rules().Add(OneOf(ways));
}

std::string TagRules::MembersOf(const PlainSchema& schema) {
  RuleText& rules = values_.rules();
  const std::string name_end = qwen_ ? "\">\"" : fmt::format("\"</arg_key>\" {} \"<arg_value>\"", Gap());
  std::vector<MemberRule> members;
  for (const auto& [name, member] : values_.NamedMembers(schema)) {
    const bool required = schema.Requires(name);
    const std::string value = Behind(member);
    if (required && !value.empty() && !CanBeName(name))
      Fail("requires \"{}\", which cannot be an argument's name in this form of calls", name.substr(0, 100));
    if (required && value.empty()) return "";
    if (value.empty() || !CanBeName(name)) continue;
    members.push_back({rules.Add(fmt::format("{} {} {}", LiteralOf(begin() + name), name_end, value)), required});
  }
  std::vector<std::string> others;
  for (const auto& [names, member] : values_.OtherNames(schema)) {
    const TextAutomaton known = Intersection(names, TextsWith(kAnyName));
    const std::string value = known.IsEmpty() ? "" : Behind(member);
    if (value.empty()) continue;
    const std::string name = TextRule(rules, known, Spelling::kRaw);
    others.push_back(rules.Add(fmt::format("{} {} {} {}", LiteralOf(begin()), name, name_end, value)));
  }
  return MembersRule(rules, members, others, schema.member_count, {"", Gap(), "\"\""});
}

std::string TagRules::Behind(const OrderedJson& schema) {
  RuleText& rules = values_.rules();
  const std::vector<PlainSchema> alternatives = values_.reader().Alternatives(schema);
  // When every string is accepted, any other value can be written as text, too.
  if (std::ranges::any_of(alternatives, &PlainSchema::TakesAllTexts))
    return TextRule(rules, UpTo(close()), Spelling::kRaw);
  std::vector<std::string> ways;
  for (const PlainSchema& one : alternatives) {
    if (one.values) {
      for (const OrderedJson& value : values_.ValuesOf(one)) AddConstant(value, ways);
      continue;
    }
    for (const std::string& other : values_.OtherThanTexts(one))
      ways.push_back(fmt::format("{0} ({1}) {0}", Gap(), other));
    if (one.Has(kStringType)) AddText(one, ways);
  }
  if (ways.empty()) return "";
  return rules.Add(fmt::format("({}) {}", OneOf(ways), LiteralOf(close())));
}

/// Adds an alternative for strings as bare text. Blanks at the ends of the text are not part of the value.
void TagRules::AddText(const PlainSchema& schema, std::vector<std::string>& ways) {
  TextAutomaton texts = Intersection(schema.Texts(), TextAutomaton::NotAtEnds(kBlanks));
  texts = Intersection(texts, Not(TextAutomaton::With(close())));
  if (texts.IsEmpty()) return;
  ways.push_back(fmt::format("{0} {1} {0}", Gap(), TextRule(values_.rules(), texts, Spelling::kRaw)));
}

void TagRules::AddConstant(const OrderedJson& value, std::vector<std::string>& ways) {
  if (!value.is_string()) {
    ways.push_back(fmt::format("{0} {1} {0}", Gap(), values_.Constant(value)));
    return;
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.find(close()) != std::string::npos) return;
  if (!HasBlanksAtEnds(text)) {
    ways.push_back(fmt::format("{0} {1} {0}", Gap(), LiteralOf(text)));
  } else {
    ways.push_back(LiteralOf(qwen_ ? "\n" + text + "\n" : text));
  }
}

}  // namespace quire
