#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// One key that a client may present. Only its hash is known here.
struct ApiKey {
  std::string name;  // who it belongs to: fairness, caching and logs go by it
  std::array<uint8_t, 32> sha256{};
  bool may_read = true;  // GET
  bool may_post = true;  // what the file's other scope is called after
};

/// What the scope of posting is called in a file: "generate" among API keys, "control" among admin tokens.
enum class KeyKind { kApi, kAdmin };
const char* PostScope(KeyKind kind);

/// The keys of a file: lines `name:sha256hex` or `name:sha256hex:scopes` (scopes: read and generate, of admin tokens
/// read and control, with a comma between them; without them both), empty lines, and comments that begin with #. A name
/// may stand on several lines, which is how a key is replaced without a gap.
class ApiKeys {
 public:
  /// Throws Error of the form "file:line: reason", and for a file that others can reach (comm/base/secret_file.h).
  static ApiKeys Load(const std::string& file, KeyKind kind = KeyKind::kApi);

  /// The key whose hash this text has, or null. Takes the same time whichever matches, or none.
  const ApiKey* Find(std::string_view key) const;

  const std::vector<ApiKey>& keys() const { return keys_; }

 private:
  std::vector<ApiKey> keys_;
};

/// 1 to 64 letters, digits, and - _ . @
bool IsKeyName(std::string_view name);

/// A new key, "prefix" and 256 random bits in base64url, and the line of a key file that accepts it.
struct NewApiKey {
  std::string key, line;
};
NewApiKey MakeApiKey(const std::string& name, const std::string& prefix, const std::string& scopes = "");

/// True when a file of that kind may hold these scopes.
bool AreScopes(std::string_view scopes, KeyKind kind);

}  // namespace quire
