#pragma once

#include "comm/base/json.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Numbers of both pools: {device: {total, free, used, cached}, host: {total, free, used}, block_size}.
Json PoolsJson(const Engine& engine);

/// The blocks of the device pool that hold something, at one moment: owners, how full, hash. Those in use first, then
/// cached ones, kMaxListedBlocks at most, because the engine waits meanwhile; "not_listed" counts the others.
inline constexpr int kMaxListedBlocks = 10'000;
Json BlocksJson(const Engine& engine);

}  // namespace quire
