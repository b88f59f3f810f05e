#include "coordinator/api/access/client_id.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

namespace quire {

std::string ClientId(const std::string& authorization) {
  if (authorization.empty()) return "";
  unsigned char hash[crypto_generichash_BYTES_MIN];
  crypto_generichash(hash, sizeof(hash), reinterpret_cast<const unsigned char*>(authorization.data()),
                     authorization.size(), nullptr, 0);
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

std::string CacheSalt(const std::string& client, const std::string& cache_salt) {
  return client + std::string(1, '\0') + cache_salt;
}

}  // namespace quire
