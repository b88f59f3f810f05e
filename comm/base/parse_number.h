#pragma once

#include <charconv>
#include <optional>
#include <string>

namespace quire {

/// Parses the whole text as a number; nullopt when anything surrounds the number or when it has a leading zero.
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
