#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire {

inline constexpr size_t kMaxTokenBytes = UINT16_MAX;  // the most bytes of one token in a message

/// Everything that a grammar needs to know about a model's tokens. The coordinator sends it, so it is the same on all
/// ranks.
struct Vocabulary {
  std::vector<std::string>
      bytes;  // bytes of each token, by id; for a control token: none, or 0xff (which no text contains) and its name
  std::vector<TokenId> stop_tokens;  // tokens that end a complete answer

  bool operator==(const Vocabulary&) const = default;
};

}  // namespace quire
