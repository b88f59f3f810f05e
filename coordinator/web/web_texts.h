#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace quire {

/// A file of web/pages/, as the build put it into the program (embed.cmake).
struct EmbeddedFile {
  std::string_view path;  // in that folder: "dashboard/index.html"
  std::string_view content;
};
std::span<const EmbeddedFile> EmbeddedFiles();

/// Literals, one behind the other, without the null at the end of each.
template <size_t... kSizes>
constexpr auto JoinedTexts(const char (&... texts)[kSizes]) {
  std::array<char, (kSizes + ...) - sizeof...(kSizes)> joined{};
  size_t at = 0;
  const auto add = [&](const char* text, size_t size) {
    for (size_t i = 0; i + 1 < size; ++i) joined[at++] = text[i];
  };
  (add(texts, kSizes), ...);
  return joined;
}

}  // namespace quire
