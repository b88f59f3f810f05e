#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire {

using CodePoint = uint32_t;
inline constexpr CodePoint kLastCodePoint = 0x10ffff;

/// Code points from `first` to `last`, both included.
struct CodeRange {
  CodePoint first, last;
  bool operator==(const CodeRange&) const = default;
};
using CodeRanges = std::vector<CodeRange>;

/// Sorted, without overlaps.
CodeRanges Normalised(CodeRanges ranges);
/// Every other code point. For normalised ranges.
CodeRanges Complement(const CodeRanges& ranges);

/// The code points of a text; nothing: it is no UTF-8.
std::optional<std::vector<CodePoint>> CodePointsOf(std::string_view text);

}  // namespace quire
