#include "coordinator/api/requests/query_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

namespace {

std::string Decoded(std::string_view text) {
  std::optional<std::string> decoded = PercentDecoded(text);
  if (!decoded) throw ApiError(400, "the query has a malformed % sequence");
  return std::move(*decoded);
}

}  // namespace

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* const end = text.data() + i + 3;
    const auto [rest, error] = std::from_chars(text.data() + i + 1, end, value, 16);
    if (error != std::errc() || rest != end) return std::nullopt;
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

QueryFields::QueryFields(std::string_view query, std::initializer_list<const char*> known) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = Decoded(pair.substr(0, equals));
    if (std::ranges::find(known, name) == known.end())
      throw ApiError(400, fmt::format("the query takes {}", fmt::join(known, ", ")), name.substr(0, 100));
    const std::string value = Decoded(pair.substr(std::min(equals + 1, pair.size())));
    if (!fields_.emplace(name, value).second) JsonFields::Refuse(name.c_str(), "is there twice; give it once");
  }
}

std::optional<int64_t> QueryFields::Integer(const char* name, int64_t low, int64_t high) const {
  const auto found = fields_.find(name);
  if (found == fields_.end()) return std::nullopt;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size() || value < low || value > high)
    JsonFields::Refuse(name, fmt::format("must be from {} to {}", low, high));
  return value;
}

std::string QueryFields::Text(const char* name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? "" : found->second;
}

std::string QueryFields::Choice(const char* name, std::initializer_list<const char*> choices) const {
  std::string text = Text(name);
  if (text.empty() || std::ranges::find(choices, text) != choices.end()) return text;
  JsonFields::Refuse(name, fmt::format("must be one of {}", fmt::join(choices, ", ")));
}

}  // namespace quire
