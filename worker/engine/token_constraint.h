#pragma once

#include <cstdint>
#include <span>

#include "comm/base/types.h"

namespace quire {

/// What one sequence's generated tokens must keep to.
class TokenConstraint {
 public:
  enum class Outcome {
    kMasked,
    kDeadEnd,     // no token may follow: the answer cannot be brought to an end
    kOverworked,  // to say which may follow takes more work than one sequence may have of everybody's steps
  };

  virtual ~TokenConstraint() = default;

  /// Says of every token of the vocabulary whether it may follow `generated`: bit i % 32 of allowed[i / 32], and no
  /// bit behind them is set. For another outcome than kMasked they mean nothing. The outcome depends on the arguments
  /// alone, whatever was asked before.
  virtual Outcome Allow(std::span<const TokenId> generated, std::span<uint32_t> allowed) = 0;
};

}  // namespace quire
