#pragma once

#include <cstddef>
#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// How the values of a schema are written.
enum class ValueStyle {
  kJson,     // JSON
  kQwenXml,  // an object as <parameter=name>, value and </parameter> for each member; values inside of values are JSON
  kGlmXml,   // the same as <arg_key>name</arg_key> and <arg_value>value</arg_value>
};

/// Blanks and line ends that may stand between two signs of JSON: indentation, and no endless run.
inline constexpr size_t kMostBlanks = 20;

/// Rules of xgrammar's EBNF, with the rule "root", for the texts of all values that the schema accepts. Keywords that
/// cannot be kept to are passed over: who has a schema asks before what those are (SchemaReader::Look). Throws Error,
/// which begins with no name, for what is no schema, what accepts nothing, and what unfolds too far.
std::string RulesOf(const OrderedJson& schema, ValueStyle style, size_t most_blanks = kMostBlanks);

}  // namespace quire
