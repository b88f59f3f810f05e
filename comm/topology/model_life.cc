#include "comm/topology/model_life.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/base/parse_number.h"

namespace quire {

namespace {

constexpr double kLongestKeepAlive = 1e9;  // about 30 years; longer times mean never, too

constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                          {"s", 1},     {"m", 60},    {"h", 3600}};

/// Returns the seconds of a unit; 0 for text that is no unit.
double SecondsOf(std::string_view unit) {
  for (const auto& [name, seconds] : kUnits) {
    if (name == unit) return seconds;
  }
  return 0;
}

/// Returns the longest part of `text` that begins at `begin` and has only these characters.
std::string RunOf(const std::string& text, size_t begin, const char* characters) {
  return text.substr(begin, std::min(text.find_first_not_of(characters, begin), text.size()) - begin);
}

std::optional<double> ParsePositive(const std::string& text) {
  constexpr const char *kDigits = "0123456789.", *kLetters = "abcdefghijklmnopqrstuvwxyz";
  if (RunOf(text, 0, kDigits) == text) return ParseNumber<double>(text);
  double seconds = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string number = RunOf(text, at, kDigits);
    const std::string unit = RunOf(text, at + number.size(), kLetters);
    const std::optional<double> value = ParseNumber<double>(number);
    if (!value || SecondsOf(unit) == 0) return std::nullopt;
    seconds += *value * SecondsOf(unit);
    at += number.size() + unit.size();
  }
  return seconds;
}

}  // namespace

std::optional<double> ParseKeepAlive(const std::string& text) {
  const bool negative = text.starts_with('-');
  const std::optional<double> seconds = text.size() > 64 ? std::nullopt : ParsePositive(text.substr(negative ? 1 : 0));
  if (!seconds || text.empty()) return std::nullopt;
  return LimitedKeepAlive(negative ? -*seconds : *seconds);
}

double LimitedKeepAlive(double seconds) { return seconds < 0 || seconds > kLongestKeepAlive ? -1 : seconds; }

}  // namespace quire
