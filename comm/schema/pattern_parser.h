#pragma once

#include <string_view>
#include <vector>

#include "comm/schema/code_points.h"

namespace quire {

/// A node of a pattern's syntax tree.
struct PatternNode {
  enum Kind {
    kClass,   // one code point of `ranges`
    kBegin,   // ^, the beginning of the text
    kEnd,     // $, the end of the text
    kRow,     // the parts, one after another
    kAny,     // exactly one of the parts
    kRepeat,  // the single part, `least` to `most` times
  };
  Kind kind = kRow;
  CodeRanges ranges = {};
  std::vector<PatternNode> parts = {};
  int least = 0, most = -1;  // -1: unbounded
};

/// Parses an ECMA 262 pattern. Throws Error, without a field in its text, for unsupported syntax (text_pattern.h).
PatternNode ParsePattern(std::string_view pattern);

}  // namespace quire
