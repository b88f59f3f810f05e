#include "coordinator/text/answers/python_number.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace quire {

namespace {

constexpr size_t kMaxNumberBytes = 512;

/// Converts digits in base 2, 8 or 16 to decimal; nullopt when a digit does not belong to the base.
std::optional<std::string> Decimal(std::string_view digits, int base) {
  std::string decimal = "0";  // least significant digit first
  for (const char c : digits) {
    int carry = 0;
    if (std::from_chars(&c, &c + 1, carry, base).ptr != &c + 1) return std::nullopt;
    for (char& place : decimal) {
      carry += (place - '0') * base;
      place = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) decimal += static_cast<char>('0' + carry % 10);
  }
  std::ranges::reverse(decimal);
  return decimal;
}

/// Returns 16, 8 or 2 for a word that begins with 0x, 0o or 0b, in either case; 0 for other words.
int BaseOf(std::string_view word) {
  if (word.size() < 3 || word[0] != '0') return 0;
  const int letter = std::tolower(static_cast<unsigned char>(word[1]));
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

/// Returns the word without underscores between digits, or between 0x and a digit (also 0o and 0b); nullopt when an
/// underscore stands elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view word) {
  const bool has_base = BaseOf(word) != 0;
  const auto is_digit = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (has_base ? std::isxdigit(byte) : std::isdigit(byte)) != 0;
  };
  std::string plain;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '_') {
      plain += word[i];
      continue;
    }
    if (i == 0 || i + 1 == word.size() || !is_digit(word[i + 1])) return std::nullopt;
    if (!is_digit(word[i - 1]) && !(has_base && i == 2)) return std::nullopt;
  }
  return plain;
}

/// Removes the leading digits from the text and returns them.
std::string TakeDigits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, count));
  text.remove_prefix(count);
  return digits;
}

bool IsExponent(std::string_view text) {
  if (!text.starts_with('e') && !text.starts_with('E')) return false;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return !TakeDigits(text).empty() && text.empty();
}

}  // namespace

std::optional<std::string> PythonNumber(std::string_view word) {
  if (word.empty() || word.size() > kMaxNumberBytes) return std::nullopt;
  const std::optional<std::string> plain = WithoutUnderscores(word);
  if (!plain) return std::nullopt;
  if (const int base = BaseOf(*plain)) return Decimal(std::string_view(*plain).substr(2), base);
  std::string_view rest = *plain;
  const std::string whole = TakeDigits(rest);
  const size_t zeros = std::min(whole.find_first_not_of('0'), whole.size());
  if (rest.empty() && zeros > 0) return zeros == whole.size() ? std::optional<std::string>("0") : std::nullopt;
  std::string number = zeros == whole.size() ? "0" : whole.substr(zeros), fraction;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = TakeDigits(rest);
    number += "." + (fraction.empty() ? "0" : fraction);
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  if (!rest.empty() && !IsExponent(rest)) return std::nullopt;
  return number + std::string(rest);
}

}  // namespace quire
