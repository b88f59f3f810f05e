#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Translates a grammar in the notation of the Python package lark into one ECMA 262 pattern that matches the same
/// texts. Each rule's name is replaced with the rule. Throws Error, whose text follows the field's name, for a bad
/// grammar, recursive rules (no pattern matches the same), directives other than %import of lark's common terminals,
/// and patterns of more than 64 KiB.
std::string PatternOfLark(std::string_view grammar);

}  // namespace quire
