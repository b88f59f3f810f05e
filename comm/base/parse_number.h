#pragma once

#include <charconv>
#include <optional>
#include <string>

namespace quire {

/// Parses the whole text as a number. Returns nullopt for an empty text, for further characters before or after the
/// number, for a number that T cannot hold, and for a leading zero ("07", but not "0" or "0.5").
template <class T>
std::optional<T> ParseNumber(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] != '.';
  if (text.empty() || error != std::errc() || stop != end || leading_zero) return std::nullopt;
  return value;
}

}  // namespace quire
