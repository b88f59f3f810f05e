#pragma once

#include "comm/json.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Numbers of both pools: {device: {total, free, used, cached}, host: {total, free, used}, block_size}.
Json PoolsJson(const Engine& engine);

/// Every block of the device pool that holds something, at one moment: its owners, how full it is, its hash.
Json BlocksJson(const Engine& engine);

}  // namespace quire
