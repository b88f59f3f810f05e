#include "comm/grammar/tag_schemas.h"

#include <optional>
#include <string_view>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "comm/schema/schema_rules.h"
#include "comm/schema/schema_work.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

constexpr int kDeepestTag = 200;

std::optional<ValueStyle> StyleOf(const OrderedJson& format) {
  const OrderedJson style = format.value("style", OrderedJson("json"));
  if (style == "json") return ValueStyle::kJson;
  if (style == "qwen_xml") return ValueStyle::kQwenXml;
  if (style == "glm_xml") return ValueStyle::kGlmXml;
  return std::nullopt;
}

/// Rewrites one format of a structural tag if it is a pattern, or a schema whose style and options Quire's rules
/// support. Leaves other formats to xgrammar.
void Rewrite(OrderedJson& format) {
  const OrderedJson type = format.value("type", OrderedJson());
  if (type == "regex" && format.contains("pattern") && format["pattern"].is_string())
    format["pattern"] = WithoutDots(format["pattern"].get<std::string>());
  if (type == "qwen_xml_parameter") format["style"] = "qwen_xml";
  if ((type != "json_schema" && type != "qwen_xml_parameter") || !format.contains("json_schema")) return;
  const auto style = StyleOf(format);
  const bool of_xgrammar =
      format.value("any_order", OrderedJson(false)) == true || !format.value("excludes", OrderedJson::array()).empty();
  if (!style || of_xgrammar) return;
  const OrderedJson blanks = format.value("max_whitespace_cnt", OrderedJson());
  const size_t most = blanks.is_number_unsigned() ? blanks.get<size_t>() : kMostBlanks;
  format = {{"type", "grammar"}, {"grammar", RulesOf(format["json_schema"], *style, most)}};
}

void RewriteAll(OrderedJson& json, int depth) {
  if (!json.is_structured() || depth > kDeepestTag) return;
  if (json.is_object()) Rewrite(json);
  for (auto& [name, part] : json.items()) {
    if (name != "json_schema") RewriteAll(part, depth + 1);
  }
}

}  // namespace

OrderedJson ParseSchema(const std::string& text) {
  if (!OrderedJson::accept(text)) Fail("is no JSON");
  return ParseExactJson(text);
}

std::string WithRules(const std::string& tag) {
  if (!OrderedJson::accept(tag)) return tag;
  OrderedJson json = ParseExactJson(tag);
  const SchemaWork work(3 * kSchemaWork);  // bounds the work on all schemas of the tag together
  RewriteAll(json, 0);
  return DumpExactJson(json);
}

}  // namespace quire
