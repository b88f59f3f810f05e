#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire {

inline constexpr size_t kMaxTokenBytes = UINT16_MAX;  // bytes of one token, on the wire

/// Everything that a grammar needs to know about a model's tokens. The coordinator sends it, so it is the same on all
/// ranks.
struct Vocabulary {
  std::vector<std::string>
      bytes;  // by id: the token's bytes. Control tokens are empty, or have a text after 0xff, a byte that no text has
  std::vector<TokenId> stop_tokens;  // each of them ends a complete answer

  bool operator==(const Vocabulary&) const = default;
};

}  // namespace quire
