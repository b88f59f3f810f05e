#pragma once

#include <cstdint>
#include <span>

#include "comm/base/types.h"

namespace quire {

/// Restricts which tokens one sequence may generate.
class TokenConstraint {
 public:
  enum class Outcome {
    kMasked,
    kDeadEnd,     // no token is allowed: the answer cannot be completed
    kOverworked,  // finding the allowed tokens takes more work than one sequence may cause in a step
  };

  virtual ~TokenConstraint() = default;

  /// Sets bit i % 32 of allowed[i / 32] for every token i of the vocabulary that may follow `generated`. Bits past the
  /// vocabulary are 0. For an outcome other than kMasked, `allowed` is meaningless. The outcome depends on the
  /// arguments alone and not on earlier calls. The last `num_guessed` tokens are draft tokens: a later call may have
  /// other tokens in their place.
  virtual Outcome Allow(std::span<const TokenId> generated, size_t num_guessed, std::span<uint32_t> allowed) = 0;
};

}  // namespace quire
