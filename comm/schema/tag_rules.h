#pragma once

#include <string>
#include <vector>

#include "comm/schema/schema_rules.h"
#include "comm/schema/value_rules.h"

namespace quire {

/// Writes the rules of objects whose members stand between tags, each value as bare text: a text as it is, anything
/// else as JSON. What a reader makes of such a text is for the schema to say (coordinator/text/answers/typed_values.h).
class TagRules {
 public:
  TagRules(ValueRules& values, ValueStyle style) : values_(values), qwen_(style == ValueStyle::kQwenXml) {}

  /// The name of a rule for the members of all objects that the schema accepts; empty: there are none.
  std::string Members(const OrderedJson& schema);

 private:
  std::string MembersOf(const PlainSchema& schema);
  /// From behind the member's name; empty: there is no such value.
  std::string Behind(const OrderedJson& schema);
  void AddText(const PlainSchema& schema, std::vector<std::string>& ways);
  void AddConstant(const OrderedJson& value, std::vector<std::string>& ways);
  bool CanBeName(const std::string& name) const;
  std::string Gap() { return values_.rules().Add("\"\" | \"\\n\""); }
  std::string begin() const { return qwen_ ? "<parameter=" : "<arg_key>"; }
  std::string close() const { return qwen_ ? "</parameter>" : "</arg_value>"; }

  ValueRules& values_;
  bool qwen_;
};

}  // namespace quire
