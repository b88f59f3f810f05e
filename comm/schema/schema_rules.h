#pragma once

#include <cstddef>
#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// The notation of a schema's values in an answer.
enum class ValueStyle {
  kJson,     // JSON
  kQwenXml,  // members of an object as <parameter=name>value</parameter>; values inside values are JSON
  kGlmXml,   // members as <arg_key>name</arg_key><arg_value>value</arg_value>; values inside values are JSON
};

/// The most blanks and line ends between two JSON tokens: enough for indentation, but no endless run.
inline constexpr size_t kMostBlanks = 20;

/// Returns rules in xgrammar's EBNF, with the rule "root", for the texts of all values that the schema accepts. Ignores
/// keywords that cannot be enforced; call SchemaReader::Look first to learn which these are. Throws Error, without a
/// field in its text, for an invalid schema, for a schema that accepts nothing, and for a schema that unfolds too far.
std::string RulesOf(const OrderedJson& schema, ValueStyle style, size_t most_blanks = kMostBlanks);

}  // namespace quire
