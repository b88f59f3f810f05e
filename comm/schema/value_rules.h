#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/schema/rule_text.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// Writes the rules of JSON values.
class ValueRules {
 public:
  /// References are resolved in `root`. `spelling` is kJson or kJsonInTag. `most_blanks` limits the blanks between two
  /// JSON tokens.
  ValueRules(const OrderedJson& root, Spelling spelling, size_t most_blanks)
      : reader_(root), spelling_(spelling), most_blanks_(most_blanks) {}

  RuleText& rules() { return rules_; }
  const SchemaReader& reader() const { return reader_; }
  Spelling spelling() const { return spelling_; }

  /// Returns the name of a rule for the values that the schema accepts; empty when there are none.
  std::string Value(const OrderedJson& schema);
  /// Returns bodies of rules, as alternatives, for the values that a plain schema accepts; empty when there are none.
  std::vector<std::string> Plain(const PlainSchema& schema);
  /// Returns such bodies for the values that a plain schema accepts, except strings. Ignores schema.values.
  std::vector<std::string> OtherThanTexts(const PlainSchema& schema);

  /// Returns the elements of schema.values that the schema accepts.
  std::vector<OrderedJson> ValuesOf(const PlainSchema& schema) const;
  /// Returns the constraints of the members that NamedMembers leaves out: sets of names, each with the schema of its
  /// members.
  std::vector<std::pair<TextAutomaton, OrderedJson>> OtherNames(const PlainSchema& schema) const;
  /// Returns the schemas of all named members: first the members in `properties`, then the other required members. A
  /// name that schema.names refuses gets the schema `false`.
  PlainSchema::Named NamedMembers(const PlainSchema& schema) const;
  /// Returns the body of a rule for exactly this value.
  std::string Constant(const OrderedJson& value);
  /// Returns the name of a rule for the white space between JSON tokens.
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
  std::map<std::string, std::string> names_;  // rule names by schema text; empty: the schema accepts nothing
};

}  // namespace quire
