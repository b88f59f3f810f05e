#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire {

inline constexpr size_t kMaxTokenBytes = UINT16_MAX;  // of one token, on the wire

/// What a grammar needs to know of a model's tokens; the same on all ranks, because the coordinator tells them.
struct Vocabulary {
  std::vector<std::string>
      bytes;  // by id: what the token stands for; empty, or behind 0xff, which no text has: control tokens
  std::vector<TokenId> stop_tokens;  // any of them ends a complete answer

  bool operator==(const Vocabulary&) const = default;
};

}  // namespace quire
