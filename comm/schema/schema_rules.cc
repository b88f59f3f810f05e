#include "comm/schema/schema_rules.h"

#include <fmt/format.h>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/schema/schema_work.h"
#include "comm/schema/tag_rules.h"
#include "comm/schema/value_rules.h"

namespace quire {

std::string RulesOf(const OrderedJson& schema, ValueStyle style, size_t most_blanks) {
  const SchemaWork work(3 * kSchemaWork);
  SchemaRemarks remarks;
  SchemaReader(schema, &remarks).Look(schema, "");
  if (!remarks.wrong.empty()) {
    const auto& [place, why] = remarks.wrong.front();
    Fail("{} {}", place.empty() ? "the schema" : place, why);
  }
  ValueRules values(schema, style == ValueStyle::kJson ? Spelling::kJson : Spelling::kJsonInTag, most_blanks);
  const std::string root = style == ValueStyle::kJson ? values.Value(schema) : TagRules(values, style).Members(schema);
  if (root.empty()) Fail("allows no answer at all");
  return fmt::format("root ::= {}{}\n", root, values.rules().text());
}

}  // namespace quire
