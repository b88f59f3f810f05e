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

/// Returns the ranges sorted and merged.
CodeRanges Normalised(CodeRanges ranges);
/// Returns the ranges of all other code points. `ranges` must be normalised.
CodeRanges Complement(const CodeRanges& ranges);

/// Returns the code points of a UTF-8 text; nullopt when its bytes do not have the form of UTF-8. Does not refuse
/// surrogates, code points beyond Unicode, and overlong forms of three or four bytes.
std::optional<std::vector<CodePoint>> CodePointsOf(std::string_view text);

}  // namespace quire
