#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// Parses the text of a schema. Throws Error when the text is not JSON.
OrderedJson ParseSchema(const std::string& text);

/// Rewrites the text of a structural tag. A schema becomes grammar rules when its values use one of Quire's styles
/// (schema_rules.h), and dots in patterns no longer match line ends. A text that is not JSON stays as it is, and
/// xgrammar reports the error. Throws Error for a schema that cannot become rules (RulesOf).
std::string WithRules(const std::string& tag);

}  // namespace quire
