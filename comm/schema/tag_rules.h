#pragma once

#include <string>
#include <vector>

#include "comm/schema/schema_rules.h"
#include "comm/schema/value_rules.h"

namespace quire {

/// Writes the rules of objects with their members between tags. A string value is bare text; any other value is JSON.
/// The parser of the answer uses the schema to find the type of a bare text (coordinator/text/answers/typed_values.h).
class TagRules {
 public:
  TagRules(ValueRules& values, ValueStyle style) : values_(values), qwen_(style == ValueStyle::kQwenXml) {}

  /// Returns the name of a rule for the members of all objects that the schema accepts; empty when there are none.
  std::string Members(const OrderedJson& schema);

 private:
  std::string MembersOf(const PlainSchema& schema);
  /// Returns the name of a rule for the value after a member's name, with the closing tag; empty when there is no such
  /// value.
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
