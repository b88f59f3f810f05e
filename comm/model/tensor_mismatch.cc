#include "comm/model/tensor_mismatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace quire {

namespace {

constexpr size_t kMostPatterns = 32;
constexpr size_t kMostDigits = 9;
constexpr char kPlace = '\0';  // replaces a number in a pattern; tensor names are printable

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Splits a name into a pattern, which has kPlace for each number between dots, and the numbers.
std::pair<std::string, std::vector<int64_t>> Split(const std::string& name) {
  std::string pattern;
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && IsDigit(name[end])) ++end;
    const bool between_dots = at > 0 && name[at - 1] == '.' && end < name.size() && name[end] == '.';
    if (between_dots && end > at && end - at <= kMostDigits) {
      numbers.push_back(std::stoll(name.substr(at, end - at)));
      pattern += kPlace;
      at = end;
    } else {
      pattern += name[at++];
    }
  }
  return {pattern, numbers};
}

/// Formats numbers as {0-3,7}, or a single number without braces.
std::string Ranges(const std::set<int64_t>& numbers) {
  if (numbers.size() == 1) return std::to_string(*numbers.begin());
  std::vector<std::string> ranges;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int64_t first = *at;
    int64_t last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at) last = *at;
    ranges.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{{{}}}", fmt::join(ranges, ","));
}

/// Returns texts that name every given name once. Names with the same pattern become one text if their numbers occur in
/// all combinations.
std::vector<std::string> Patterns(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::vector<int64_t>>> found;
  std::vector<std::string> order;
  for (const std::string& name : names) {
    auto [pattern, numbers] = Split(name);
    if (!found.contains(pattern)) order.push_back(pattern);
    found[pattern].insert(std::move(numbers));
  }
  std::vector<std::string> texts;
  const auto add = [&](std::string text, const std::vector<std::set<int64_t>>& places) {
    for (const std::set<int64_t>& numbers : places) text.replace(text.find(kPlace), 1, Ranges(numbers));
    texts.push_back(std::move(text));
  };
  for (const std::string& pattern : order) {
    const std::set<std::vector<int64_t>>& of_names = found[pattern];
    std::vector<std::set<int64_t>> places(of_names.begin()->size());
    for (const std::vector<int64_t>& numbers : of_names) {
      for (size_t i = 0; i < places.size(); ++i) places[i].insert(numbers[i]);
    }
    size_t combinations = 1;
    for (const std::set<int64_t>& numbers : places) combinations *= numbers.size();
    if (combinations == of_names.size()) {
      add(pattern, places);
      continue;
    }
    for (const std::vector<int64_t>& numbers : of_names) {
      for (size_t i = 0; i < places.size(); ++i) places[i] = {numbers[i]};
      add(pattern, places);
    }
  }
  return texts;
}

std::string Listed(const std::vector<std::string>& names) {
  const std::vector<std::string> all = Patterns(names);
  if (all.size() <= kMostPatterns) return fmt::format("{}", fmt::join(all, ", "));
  return fmt::format("{} and {} more", fmt::join(all.begin(), all.begin() + kMostPatterns, ", "),
                     all.size() - kMostPatterns);
}

}  // namespace

std::string TensorMismatch::Text() const {
  std::vector<std::string> parts;
  for (const auto& [what, names] :
       {std::pair{"missing", &missing}, {"unexpected", &unexpected}, {"of another shape or type", &misshapen}}) {
    if (!names->empty()) parts.push_back(fmt::format("{}: {}", what, Listed(*names)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace quire
