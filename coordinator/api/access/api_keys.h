#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// One key that a client may present. Only the key's hash is stored.
struct ApiKey {
  std::string name;  // the key's owner; fairness, caching and logs use this name
  std::array<uint8_t, 32> sha256{};
  bool may_read = true;  // the key allows GET requests
  bool may_post = true;  // the key allows POST requests to the scope that PostScope names
};

/// The kind of a key: an API key, or an admin token. PostScope returns the name of the scope that allows POST:
/// "generate" for API keys, "control" for admin tokens.
enum class KeyKind { kApi, kAdmin };
const char* PostScope(KeyKind kind);

/// The keys of a file. A line is `name:sha256hex` or `name:sha256hex:scopes`; empty lines and lines that begin with #
/// are skipped. Scopes are "read" and PostScope(), separated by commas; a line without scopes has both. A name may have
/// several lines, so that its old key still works while a new one is introduced.
class ApiKeys {
 public:
  /// Reads a key file. Throws Error "file:line: reason" for a bad line, and Error when other users may read or replace
  /// the file (comm/base/secret_file.h).
  static ApiKeys Load(const std::string& file, KeyKind kind = KeyKind::kApi);

  /// Returns the key with this text's SHA-256; null when there is none. The duration of a call reveals nothing about
  /// the stored keys.
  const ApiKey* Find(std::string_view key) const;

  const std::vector<ApiKey>& keys() const { return keys_; }

 private:
  std::vector<ApiKey> keys_;
};

/// True for 1 to 64 letters, digits and - _ . @.
bool IsKeyName(std::string_view name);

/// A new key (a prefix and 256 random bits in base64url), and the line with which a key file accepts the key.
struct NewApiKey {
  std::string key, line;
};
NewApiKey MakeApiKey(const std::string& name, const std::string& prefix, const std::string& scopes = "");

/// True when `scopes` is a list that a key file of this kind accepts; false for an empty text.
bool AreScopes(std::string_view scopes, KeyKind kind);

}  // namespace quire
