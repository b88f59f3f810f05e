#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Decodes a text as HTML forms encode it: "%2F" becomes "/", and "+" becomes a space. Returns nullopt when the text is
/// malformed.
std::optional<std::string> PercentDecoded(std::string_view text);

/// Typed access to a query string, NAME=VALUE&NAME=VALUE. Throws ApiError 400 for an unknown or repeated name, and for
/// a value that is malformed or not allowed.
class QueryFields {
 public:
  QueryFields(std::string_view query, std::initializer_list<const char*> known);

  std::optional<int64_t> Integer(const char* name, int64_t low, int64_t high) const;
  /// Returns the decoded value; empty when the name is absent.
  std::string Text(const char* name) const;
  /// Returns the field's value, which must be one of `choices`; empty when the field is absent or empty.
  std::string Choice(const char* name, std::initializer_list<const char*> choices) const;

 private:
  std::map<std::string, std::string, std::less<>> fields_;
};

}  // namespace quire
