#pragma once

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

  /// Sets to minus infinity the logits, of the whole vocabulary, of tokens that may not follow `generated`; for another
  /// outcome than kMasked, of which all that follow are, they mean nothing. The outcome depends on the arguments alone,
  /// whatever was asked before.
  virtual Outcome Mask(std::span<const TokenId> generated, std::span<float> logits) = 0;
};

}  // namespace quire
