#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// A schema from its text. Throws Error for what is no JSON.
OrderedJson ParseSchema(const std::string& text);

/// The text of a structural tag with rules in place of its schemas, where values are written in a style of ours
/// (schema_rules.h), and with patterns whose dots take no ends of lines. What is no such tag stays as it is: xgrammar
/// says what is wrong.
std::string WithRules(const std::string& tag);

}  // namespace quire
