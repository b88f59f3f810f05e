#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire::command {

// The engine's commands about blocks that go to a store outside of the pools, and come back (command.h says how
// commands work).

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
