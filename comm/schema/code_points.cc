#include "comm/schema/code_points.h"

#include <algorithm>

namespace quire {

CodeRanges Normalised(CodeRanges ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  CodeRanges out;
  for (const CodeRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodeRanges Complement(const CodeRanges& ranges) {
  CodeRanges out;
  CodePoint next = 0;
  for (const CodeRange& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

std::optional<std::vector<CodePoint>> CodePointsOf(std::string_view text) {
  std::vector<CodePoint> out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return std::nullopt;
    CodePoint point = length == 1 ? lead : lead & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xc0) != 0x80) return std::nullopt;
      point = point << 6 | (byte & 0x3f);
    }
    out.push_back(point);
    i += length;
  }
  return out;
}

}  // namespace quire
