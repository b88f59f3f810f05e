#include "coordinator/api/requests/structural_tag_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "comm/schema/schema_work.h"
#include "coordinator/api/requests/schema_check.h"

namespace quire {

namespace {

constexpr int kDeepestFormat = 32;
constexpr int64_t kMostRepetitions = 128;  // larger counts make a token mask take 10 to 20 ms

/// The form that the value of a member must have.
enum class Form {
  kText,        // a string that is not empty
  kAnyText,     // any string
  kTexts,       // a list of non-empty strings
  kFlag,        // true or false
  kCount,       // a number from 0 to kMostRepetitions
  kMostCount,   // a bounded count, or -1 for any number
  kWhitespace,  // a bounded count, or null for any number
  kStyle,       // the spelling of a schema's values
  kSchema,      // a JSON schema
  kToken,       // a token's id or text
  kTokens,      // a list of tokens' ids or texts
  kBegin,       // a string, or a format of the kind "token"
  kEnd,         // as kBegin, or a list of strings
  kFormat,      // a format
  kFormatList,  // a list of at least one format
  kTags,        // a list of at least one format of the kind "tag"
  kRules,       // a list of at least one pair [text, format]
};

struct Member {
  std::string_view name;
  Form form;
  bool required = true;
};

constexpr Member Optional(std::string_view name, Form form) { return {name, form, false}; }

// The supported kinds of formats and their members. The kind token_dispatch is not supported, because xgrammar 0.2.8
// crashes on it inside a repeat. The budgets of any_text and any_tokens (max_tokens, max_chars) are not supported,
// because every token mask would then visit the whole vocabulary.
const std::map<std::string_view, std::vector<Member>> kKinds = {
    {"const_string", {{"value", Form::kText}}},
    {"json_schema",
     {{"json_schema", Form::kSchema},
      Optional("style", Form::kStyle),
      Optional("any_order", Form::kFlag),
      Optional("max_whitespace_cnt", Form::kWhitespace),
      Optional("excludes", Form::kTexts)}},
    {"qwen_xml_parameter", {{"json_schema", Form::kSchema}}},
    {"any_text", {Optional("excludes", Form::kTexts)}},
    {"grammar", {{"grammar", Form::kText}}},
    {"regex", {{"pattern", Form::kText}}},
    {"sequence", {{"elements", Form::kFormatList}}},
    {"or", {{"elements", Form::kFormatList}}},
    {"tag", {{"begin", Form::kBegin}, {"content", Form::kFormat}, {"end", Form::kEnd}}},
    {"triggered_tags",
     {{"triggers", Form::kTexts},
      {"tags", Form::kTags},
      Optional("excludes", Form::kTexts),
      Optional("at_least_one", Form::kFlag),
      Optional("stop_after_first", Form::kFlag)}},
    {"token_triggered_tags",
     {{"trigger_tokens", Form::kTokens},
      {"tags", Form::kTags},
      Optional("exclude_tokens", Form::kTokens),
      Optional("at_least_one", Form::kFlag),
      Optional("stop_after_first", Form::kFlag)}},
    {"tags_with_separator",
     {{"tags", Form::kTags},
      {"separator", Form::kAnyText},
      Optional("at_least_one", Form::kFlag),
      Optional("stop_after_first", Form::kFlag)}},
    {"optional", {{"content", Form::kFormat}}},
    {"plus", {{"content", Form::kFormat}}},
    {"star", {{"content", Form::kFormat}}},
    {"repeat", {{"min", Form::kCount}, {"max", Form::kMostCount}, {"content", Form::kFormat}}},
    {"token", {{"token", Form::kToken}}},
    {"exclude_token", {Optional("exclude_tokens", Form::kTokens)}},
    {"any_tokens", {Optional("exclude_tokens", Form::kTokens)}},
    {"dispatch", {{"rules", Form::kRules}, Optional("loop", Form::kFlag), Optional("excludes", Form::kTexts)}},
};

const std::set<std::string_view> kStyles = {"json",    "qwen_xml",   "minimax_xml", "minimax_m3_xml",   "deepseek_xml",
                                            "glm_xml", "cohere_xml", "kimi_k3_xml", "deepseek_v4_1_xml"};

bool IsText(const OrderedJson& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }
bool IsCount(const OrderedJson& value, int64_t most) {
  return value.is_number_integer() && value >= 0 && value <= most;
}
bool IsToken(const OrderedJson& value) { return IsText(value) || IsCount(value, INT32_MAX); }
bool IsListOf(const OrderedJson& value, bool (*is)(const OrderedJson&)) {
  return value.is_array() && std::ranges::all_of(value, is);
}

/// Checks a format and all formats inside it, and stores the first problem that it finds.
class TagChecker {
 public:
  std::string problem;

  /// `kind`: the format must be of this kind and may omit "type". Empty: any kind is allowed, and "type" is required.
  /// `where`: the format's path, for the problem. `depth`: 1 for the outermost format, and one more for each format
  /// around this one.
  void Check(const OrderedJson& format, const std::string& where, int depth, const std::string& kind = "") {
    if (!problem.empty()) return;
    if (depth > kDeepestFormat) return Refuse(where, fmt::format("is nested deeper than {} formats", kDeepestFormat));
    if (!format.is_object()) return Refuse(where, "must be an object");
    const auto type = format.find("type");
    if (type == format.end() && kind.empty()) return Refuse(where + ".type", "is missing");
    if (type != format.end() && !type->is_string()) return Refuse(where + ".type", "must be a string");
    const std::string name = type == format.end() ? kind : type->get<std::string>();
    const auto known = kKinds.find(name);
    if (known == kKinds.end())
      return Refuse(where + ".type", fmt::format("\"{}\" is not supported", name.substr(0, 50)));
    if (!kind.empty() && name != kind) return Refuse(where + ".type", fmt::format("must be {}", kind));
    CheckMembers(format, known->second, where, depth);
  }

 private:
  void Refuse(const std::string& where, const std::string& why) {
    if (problem.empty()) problem = where + " " + why;
  }

  void CheckMembers(const OrderedJson& format, const std::vector<Member>& members, const std::string& where,
                    int depth) {
    for (const auto& [name, value] : format.items()) {
      if (name == "type") continue;
      const std::string place = where + "." + name.substr(0, 50);
      const auto member = std::ranges::find(members, name, &Member::name);
      if (member == members.end()) return Refuse(place, "is not supported; leave it out");
      if (const std::string why = WhyWrong(value, member->form); !why.empty()) return Refuse(place, why);
      CheckInside(value, member->form, place, depth);
    }
    for (const Member& member : members) {
      if (member.required && !format.contains(member.name))
        return Refuse(fmt::format("{}.{}", where, member.name), "is missing");
    }
    const auto most = format.find("max");
    if (most != format.end() && *most != -1 && *most < format["min"]) Refuse(where + ".max", "is less than min");
  }

  /// Checks the value of a member, but no formats or schemas inside it. Returns the problem; empty when there is none.
  static std::string WhyWrong(const OrderedJson& value, Form form) {
    const auto unless = [](bool right, std::string why) { return right ? std::string() : std::move(why); };
    switch (form) {
      case Form::kText:
        return unless(IsText(value), "must be a string that is not empty");
      case Form::kAnyText:
        return unless(value.is_string(), "must be a string");
      case Form::kTexts:
        return unless(IsListOf(value, IsText), "must be a list of strings that are not empty");
      case Form::kFlag:
        return unless(value.is_boolean(), "must be true or false");
      case Form::kCount:
      case Form::kMostCount:
      case Form::kWhitespace: {
        const bool any = (form == Form::kMostCount && value == -1) || (form == Form::kWhitespace && value.is_null());
        return unless(any || IsCount(value, kMostRepetitions),
                      fmt::format("must be an integer from 0 to {}", kMostRepetitions));
      }
      case Form::kStyle:
        return unless(value.is_string() && kStyles.contains(value.get_ref<const std::string&>()), "is not known");
      case Form::kToken:
        return unless(IsToken(value), "must be the id or the text of a token");
      case Form::kTokens:
        return unless(IsListOf(value, IsToken), "must be a list of ids or texts of tokens");
      case Form::kBegin:
        return unless(value.is_string() || value.is_object(), "must be a string or a token");
      case Form::kEnd:
        return unless(value.is_string() || value.is_object() ||
                          (IsListOf(value, [](const OrderedJson& text) { return text.is_string(); }) && !value.empty()),
                      "must be a string, a list of strings or a token");
      case Form::kFormatList:
      case Form::kTags:
      case Form::kRules:
        return unless(value.is_array() && !value.empty(), "must be a list of at least one");
      case Form::kSchema:
      case Form::kFormat:
        return "";
    }
    return "";
  }

  void CheckInside(const OrderedJson& value, Form form, const std::string& where, int depth) {
    switch (form) {
      case Form::kSchema:
        if (const std::string why = WhyNotKept(value); !why.empty()) Refuse(where, "cannot be kept to exactly: " + why);
        return;
      case Form::kBegin:
      case Form::kEnd:
        if (value.is_object()) Check(value, where, depth + 1, "token");
        return;
      case Form::kFormat:
        return Check(value, where, depth + 1);
      case Form::kFormatList:
      case Form::kTags:
        for (size_t i = 0; i < value.size(); ++i)
          Check(value[i], fmt::format("{}.{}", where, i), depth + 1, form == Form::kTags ? "tag" : "");
        return;
      case Form::kRules:
        for (size_t i = 0; i < value.size(); ++i) {
          const std::string place = fmt::format("{}.{}", where, i);
          if (!value[i].is_array() || value[i].size() != 2 || !IsText(value[i][0]))
            return Refuse(place, "must be a list of a text and a format");
          Check(value[i][1], place + ".1", depth + 1);
        }
        return;
      default:
        return;
    }
  }
};

}  // namespace

std::string WhyTagNotKept(const OrderedJson& tag) {
  const SchemaWork work(kSchemaWork);  // shared by all schemas of the tag
  for (const auto& [name, value] : tag.items()) {
    if (name != "type" && name != "format") return fmt::format("{} is not supported", name.substr(0, 50));
  }
  const auto type = tag.find("type");
  if (type != tag.end() && *type != "structural_tag") return "type must be structural_tag";
  const auto format = tag.find("format");
  if (format == tag.end()) return "format is missing";
  TagChecker checker;
  checker.Check(*format, "format", 1);
  return checker.problem;
}

}  // namespace quire
