#pragma once

#include <string_view>

#include "comm/schema/text_automaton.h"

namespace quire {

/// Returns the texts in which an ECMA 262 pattern finds a match, as JSON Schema's `pattern` requires; only anchors tie
/// the match to the text's beginning and end. Throws Error, without a field in its text, for an invalid pattern and for
/// a pattern that unfolds to too many states. Look-around, word boundaries, back references and Unicode properties are
/// not supported and also throw.
TextAutomaton TextsWith(std::string_view pattern);

/// Returns the same pattern with each dot (outside classes) replaced by a class of everything but line ends. xgrammar's
/// dot would match any character.
std::string WithoutDots(std::string_view pattern);

}  // namespace quire
