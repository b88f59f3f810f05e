#include "coordinator/api/access/api_keys.h"

#include <sodium.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/secret_file.h"

namespace quire {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kKeyBytes = 32;

std::array<uint8_t, 32> Sha256(std::string_view text) {
  std::array<uint8_t, 32> hash;
  static_assert(crypto_hash_sha256_BYTES == sizeof(hash));
  ::crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return hash;
}

/// Removes the text before the first separator from the front of `text`, together with the separator, and returns that
/// text. Without a separator, removes and returns all of `text`.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

void ReadScopes(std::string_view scopes, KeyKind kind, ApiKey& key, const std::string& where) {
  key.may_read = key.may_post = false;
  while (!scopes.empty()) {
    const std::string_view scope = TakeUntil(scopes, ',');
    if (scope == "read")
      key.may_read = true;
    else if (scope == PostScope(kind))
      key.may_post = true;
    else
      Fail("{}: unknown scope \"{}\"; known: read, {}", where, std::string(scope.substr(0, 40)), PostScope(kind));
  }
}

ApiKey ReadLine(std::string_view line, KeyKind kind, const std::string& where) {
  const size_t colons = static_cast<size_t>(std::count(line.begin(), line.end(), ':'));
  const std::string_view name = TakeUntil(line, ':');
  if (!IsKeyName(name)) Fail("{}: a line is name:sha256hex, and the name has 1 to 64 letters, digits or -_.@", where);
  ApiKey key;
  key.name = name;
  const std::string_view hex = TakeUntil(line, ':');
  size_t size = 0;
  const char* end = nullptr;
  const bool decoded =
      ::sodium_hex2bin(key.sha256.data(), key.sha256.size(), hex.data(), hex.size(), nullptr, &size, &end) == 0;
  if (!decoded || size != key.sha256.size() || end != hex.data() + hex.size())
    Fail("{}: after {}: must stand the SHA-256 of the key, 64 hexadecimal digits", where, key.name);
  if (colons > 2 || (colons == 2 && line.empty())) Fail("{}: a line is name:sha256hex[:scopes]", where);
  if (colons == 2) ReadScopes(line, kind, key, where);
  return key;
}

}  // namespace

bool IsKeyName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '@';
  });
}

ApiKeys ApiKeys::Load(const std::string& file, KeyKind kind) {
  const Secret content = ReadGuardedFile(file, FileAccess::kOwnerOnly, kMaxFileBytes);
  std::string_view rest = content.view();
  ApiKeys loaded;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeUntil(rest, '\n');
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty() && line[0] != '#')
      loaded.keys_.push_back(ReadLine(line, kind, fmt::format("{}:{}", file, number)));
  }
  if (loaded.keys_.empty()) Fail("{} has no keys; make one with quire keygen", file);
  return loaded;
}

const ApiKey* ApiKeys::Find(std::string_view key) const {
  const std::array<uint8_t, 32> hash = Sha256(key);
  const ApiKey* found = nullptr;
  for (const ApiKey& candidate : keys_) {
    const bool same = ::sodium_memcmp(candidate.sha256.data(), hash.data(), hash.size()) == 0;
    found = same ? &candidate : found;
  }
  return found;
}

bool AreScopes(std::string_view scopes, KeyKind kind) {
  if (scopes.empty()) return false;
  while (!scopes.empty()) {
    const std::string_view scope = TakeUntil(scopes, ',');
    if (scope != "read" && scope != PostScope(kind)) return false;
  }
  return true;
}

const char* PostScope(KeyKind kind) { return kind == KeyKind::kApi ? "generate" : "control"; }

NewApiKey MakeApiKey(const std::string& name, const std::string& prefix, const std::string& scopes) {
  std::array<unsigned char, kKeyBytes> random;
  ::randombytes_buf(random.data(), random.size());
  constexpr int kForm = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_ENCODED_LEN(kKeyBytes, kForm), '\0');
  ::sodium_bin2base64(text.data(), text.size(), random.data(), random.size(), kForm);
  text.pop_back();  // the terminating zero
  NewApiKey made;
  made.key = prefix + text;
  const auto hash = Sha256(made.key);
  std::string hex(2 * hash.size() + 1, '\0');
  ::sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  hex.pop_back();
  made.line = name + ":" + hex + (scopes.empty() ? "" : ":" + scopes) + "\n";
  return made;
}

}  // namespace quire
