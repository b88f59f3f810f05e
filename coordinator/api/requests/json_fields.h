#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/http/api_error.h"

namespace quire {

/// The bounds of a client's JSON: of a body, and of JSON text inside a body.
inline constexpr JsonLimits kClientJson = {.max_depth = 32, .max_nodes = 200'000, .max_members = 1024};

/// Typed access to a request body. null counts as absent. A value of the wrong type or out of range throws ApiError 400
/// that names the field and the values that it accepts.
class JsonFields {
 public:
  explicit JsonFields(const Json& body);

  const Json* Find(const char* name) const;
  bool Has(const char* name) const { return Find(name) != nullptr; }
  std::optional<int64_t> Integer(const char* name, int64_t low, int64_t high) const;
  std::optional<double> Number(const char* name, double low, double high) const;
  bool Flag(const char* name, bool otherwise) const;
  std::optional<std::string> Text(const char* name) const;
  /// Reads one string or a list of strings, at most max_count strings of 1 to max_bytes bytes.
  std::vector<std::string> Texts(const char* name, size_t max_count, size_t max_bytes) const;

  /// Accepts 5 and 5.0. Returns nullopt for a value that is no integer, and for an integer that is too large.
  static std::optional<int64_t> WholeNumber(const Json& value);
  [[noreturn]] static void Refuse(const char* name, const std::string& reason);

 private:
  const Json& body_;
};

}  // namespace quire
