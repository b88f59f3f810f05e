#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

/// A hash for tables of texts from model files: SipHash with a random key per process, so that a file cannot be made to
/// cause collisions.
struct KeyedHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const;
};

/// Returns a random key for a hash, so that nobody can choose inputs with colliding hashes.
uint64_t NewSecret();

}  // namespace quire
