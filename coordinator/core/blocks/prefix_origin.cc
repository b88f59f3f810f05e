#include "coordinator/core/blocks/prefix_origin.h"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>
#include <string>

namespace quire {

PrefixOrigin OriginOf(std::string_view salt, int adapter) {
  const std::string text = fmt::format("{}:{}", adapter, salt);
  PrefixOrigin origin;
  crypto_generichash(origin.data(), origin.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     nullptr, 0);
  return origin;
}

BlockHash RootOf(const PrefixOrigin& origin, const PrefixCache::Key& key) {
  unsigned char out[crypto_shorthash_siphashx24_BYTES];
  crypto_shorthash_siphashx24(out, origin.data(), origin.size(), key.data());
  BlockHash hash;
  static_assert(sizeof(hash) == sizeof(out));
  std::memcpy(&hash, out, sizeof(hash));
  return hash;
}

}  // namespace quire
