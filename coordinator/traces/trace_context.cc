#include "coordinator/traces/trace_context.h"

#include <algorithm>
#include <cstdint>

namespace quire {

namespace {

bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) { return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos; }

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  // The form is: version "-" trace id "-" parent id "-" flags. Later versions may append more after another "-".
  constexpr size_t kLength = 55;
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const std::string_view version = header.substr(0, 2), trace = header.substr(3, 32), parent = header.substr(36, 16),
                         flags = header.substr(53, 2);
  if (!IsHex(version) || version == "ff" || !IsId(trace) || !IsId(parent) || !IsHex(flags)) return std::nullopt;
  if (header.size() > kLength && (version == "00" || header[kLength] != '-')) return std::nullopt;
  const char last = flags[1];
  const int bits = last <= '9' ? last - '0' : last - 'a' + 10;
  return TraceContext{std::string(trace), std::string(parent), (bits & 1) != 0};
}

}  // namespace quire
