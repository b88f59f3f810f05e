#pragma once

#include <string_view>
#include <vector>

#include "comm/schema/code_points.h"

namespace quire {

/// A part of a pattern.
struct PatternNode {
  enum Kind {
    kClass,   // one code point of `ranges`
    kBegin,   // ^
    kEnd,     // $
    kRow,     // parts, one after another
    kAny,     // one of the parts
    kRepeat,  // the one part, `least` to `most` times
  };
  Kind kind = kRow;
  CodeRanges ranges = {};
  std::vector<PatternNode> parts = {};
  int least = 0, most = -1;  // -1: no bound
};

/// Reads a pattern of ECMA 262's. Throws Error, which begins with no name, for what it does not know (text_pattern.h).
PatternNode ParsePattern(std::string_view pattern);

}  // namespace quire
