#pragma once

#include <string_view>

#include "comm/schema/text_automaton.h"

namespace quire {

/// The texts in which a pattern of ECMA 262's finds something, as JSON Schema's `pattern` has it: anchors tie it to the
/// beginning and the end. Throws Error, which begins with no name, for what is no pattern, for look-around, word
/// boundaries, back references and properties of Unicode, and for what unfolds to too many states.
TextAutomaton TextsWith(std::string_view pattern);

/// The same pattern with every dot as what a dot is: all but the ends of lines. For patterns of xgrammar's, whose dot
/// is any character.
std::string WithoutDots(std::string_view pattern);

}  // namespace quire
