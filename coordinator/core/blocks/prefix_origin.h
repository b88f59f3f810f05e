#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "coordinator/core/blocks/prefix_cache.h"

namespace quire {

/// A digest of a salt and an adapter, which begins their hash chains under every key. It does not tell the salt. All
/// zeros: not known.
using PrefixOrigin = std::array<uint8_t, 32>;

PrefixOrigin OriginOf(std::string_view salt, int adapter);

/// Returns the start of the hash chain of an origin under a key (PrefixCache::Root).
BlockHash RootOf(const PrefixOrigin& origin, const PrefixCache::Key& key);

}  // namespace quire
