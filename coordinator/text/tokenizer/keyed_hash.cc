#include "coordinator/text/tokenizer/keyed_hash.h"

#include <sodium.h>

#include <array>
#include <cstring>

namespace quire {

namespace {

using HashKey = std::array<unsigned char, crypto_shorthash_KEYBYTES>;

const HashKey& KeyOfThisProcess() {
  static const HashKey kKey = [] {
    HashKey key;
    ::randombytes_buf(key.data(), key.size());
    return key;
  }();
  return kKey;
}

}  // namespace

size_t KeyedHash::operator()(std::string_view text) const {
  std::array<unsigned char, crypto_shorthash_BYTES> bytes;
  ::crypto_shorthash(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     KeyOfThisProcess().data());
  size_t hash = 0;
  static_assert(sizeof(hash) <= sizeof(bytes));
  std::memcpy(&hash, bytes.data(), sizeof(hash));
  return hash;
}

uint64_t NewSecret() {
  uint64_t secret = 0;
  ::randombytes_buf(&secret, sizeof(secret));
  return secret;
}

}  // namespace quire
