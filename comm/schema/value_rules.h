#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/schema/rule_text.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// Writes the rules of values as JSON.
class ValueRules {
 public:
  /// root: what references lead into. spelling: of texts, kJson or kJsonInTag. most_blanks: between two signs.
  ValueRules(const OrderedJson& root, Spelling spelling, size_t most_blanks)
      : reader_(root), spelling_(spelling), most_blanks_(most_blanks) {}

  RuleText& rules() { return rules_; }
  const SchemaReader& reader() const { return reader_; }
  Spelling spelling() const { return spelling_; }

  /// The name of a rule for the values that the schema accepts; empty: there are none.
  std::string Value(const OrderedJson& schema);
  /// Names of rules for the values of some types; none: there are no such values.
  std::vector<std::string> Plain(const PlainSchema& schema);
  /// The same of values whose text is not a string's.
  std::vector<std::string> OtherThanTexts(const PlainSchema& schema);

  /// Those of its values that the schema accepts.
  std::vector<OrderedJson> ValuesOf(const PlainSchema& schema) const;
  /// What an object's members have to be accepted by beside those that `properties` names: texts of names, and a
  /// schema.
  std::vector<std::pair<TextAutomaton, OrderedJson>> OtherNames(const PlainSchema& schema) const;
  /// The schemas of all members that are named, required ones behind the others.
  PlainSchema::Named NamedMembers(const PlainSchema& schema) const;
  /// The body of a rule for this very value.
  std::string Constant(const OrderedJson& value);
  /// The name of a rule for blanks between signs.
  std::string Blanks();

 private:
  void AddNumbers(const PlainSchema& schema, std::vector<std::string>& out);
  std::string Text(const PlainSchema& schema);
  std::string Array(const PlainSchema& schema);
  std::string Object(const PlainSchema& schema);
  std::string Anything();

  RuleText rules_;
  SchemaReader reader_;
  Spelling spelling_;
  size_t most_blanks_;
  std::map<std::string, std::string> names_;  // of rules, by the text of a schema; empty: it accepts nothing
};

}  // namespace quire
