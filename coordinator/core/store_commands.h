#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire::command {

// Engine commands for blocks that are copied to a store outside of the pools and come back. command.h describes
// commands in general.

struct HoldCached {
  uint64_t ticket;
  std::span<const BlockId> blocks;
};
struct ReserveForStored {
  const std::string& salt;
  const std::vector<TokenId>& tokens;
  int adapter;
  uint64_t ticket;
  int prefix;
};
struct CacheStored {
  const std::string& salt;
  const std::vector<TokenId>& tokens;
  int adapter;
  uint64_t ticket;
  int prefix;
};

}  // namespace quire::command
