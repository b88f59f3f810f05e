#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// "%2F" and "+" of a form's text, spelled out; nothing when it is malformed.
std::optional<std::string> PercentDecoded(std::string_view text);

/// Typed access to what follows the question mark: NAME=VALUE, with & between them. A name that is not in `known`, one
/// that comes twice, and a value that is malformed or out of range throw ApiError 400 that names it.
class QueryFields {
 public:
  QueryFields(std::string_view query, std::initializer_list<const char*> known);

  std::optional<int64_t> Integer(const char* name, int64_t low, int64_t high) const;
  /// Empty when it is not there.
  std::string Text(const char* name) const;
  /// One of the choices, or empty.
  std::string Choice(const char* name, std::initializer_list<const char*> choices) const;

 private:
  std::map<std::string, std::string, std::less<>> fields_;
};

}  // namespace quire
