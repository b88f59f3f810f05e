#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Translates a grammar in the notation of the Python package lark into one ECMA 262 pattern that matches the same
/// texts, by replacing the names of rules with the rules. Throws Error, whose text is to follow the field's name, for a
/// bad grammar, for recursive rules (no pattern can match them), for directives other than %import of lark's common
/// terminals, and for patterns of more than 64 KiB.
std::string PatternOfLark(std::string_view grammar);

}  // namespace quire
