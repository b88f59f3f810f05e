#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Translates a grammar in the notation of the Python package lark into one ECMA 262 pattern that matches the same
/// texts: replaces the names of rules by the rules. Throws Error for an invalid grammar, for recursive rules (no
/// pattern can match them), for directives other than %import of lark's common terminals, and for patterns of more than
/// 64 KiB. The caller puts the name of the request's field before the error's text.
std::string PatternOfLark(std::string_view grammar);

}  // namespace quire
