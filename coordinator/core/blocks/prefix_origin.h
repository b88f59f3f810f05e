#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "coordinator/core/blocks/prefix_cache.h"

namespace quire {

/// A digest of a cache salt and an adapter. RootOf computes the start of the pair's hash chains from the digest and a
/// key. The salt cannot be derived from the digest. All zeros: the origin is unknown.
using PrefixOrigin = std::array<uint8_t, 32>;

PrefixOrigin OriginOf(std::string_view salt, int adapter);

/// Returns the start of the origin's hash chains under the key, as PrefixCache::Root does for salt and adapter.
BlockHash RootOf(const PrefixOrigin& origin, const PrefixCache::Key& key);

}  // namespace quire
