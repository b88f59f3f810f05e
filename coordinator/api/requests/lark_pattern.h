#pragma once

#include <string>
#include <string_view>

namespace quire {

/// A grammar in the notation of the Python package lark as one pattern of ECMA 262's that finds the same texts: rules
/// are put in place of their names. Throws Error, whose text goes on behind the name of the field, for what is no
/// grammar, for rules that refer to themselves (no pattern says the same), for directives other than %import of
/// lark's common terminals, and for more than 64 KiB of pattern.
std::string PatternOfLark(std::string_view grammar);

}  // namespace quire
